#!/bin/sh
# The shop, a guest. It works in its own folder and puts into ../post what it sends: sh shop.sh STEP
set -eu
cd "$(dirname "$0")/shop"
step=${1:-}

case $step in
keys)
    fedonce keys new shop
    cp shop.pub ../post/keys/
    ;;
look)
    fedonce guest fit shop.csv --id client_no --name shop --run spring --secret parties.secret --type branch=category --out trial
    ;;
learn)
    fedonce guest fit shop.csv --id client_no --name shop --run spring --secret parties.secret --drop newsletter,branch,department --learner autoencoder --dim 2 --sign shop.key --out model
    ;;
send)
    fedonce inspect model/representation.fedonce --verify shop.pub
    cp model/representation.fedonce ../post/training/shop.fedonce
    ;;
represent)
    fedonce guest represent new_customers.csv --model model --secret parties.secret --sign shop.key --out ../post/prediction/shop.fedonce
    ;;
respond)
    fedonce align respond shop.csv --id client_no --name shop --request ../post/alignment/bank.request --at-most 5000 --out ../post/alignment/shop.response
    ;;
learn-aligned)
    fedonce guest fit shop.csv --id client_no --name shop --run autumn --rows ../post/alignment/shop.rows.sealed --key shop.key --drop newsletter,branch,department --learner autoencoder --dim 2 --sign shop.key --out aligned
    cp aligned/representation.fedonce ../post/aligned/shop.fedonce
    ;;
*)
    echo "usage: sh shop.sh keys | look | learn | send | represent | respond | learn-aligned" >&2
    exit 2
    ;;
esac
