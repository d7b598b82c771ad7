#!/bin/sh
# The utility, a guest that is late. It works in its own folder and puts into ../post what it sends: sh utility.sh STEP
set -eu
cd "$(dirname "$0")/utility"
step=${1:-}

case $step in
keys)
    fedonce keys new utility
    cp utility.pub ../post/keys/
    ;;
learn)
    fedonce guest fit utility.parquet --id customer --name utility --run spring --secret parties.secret --columns contract_since,days_late,late_payments,arrears --learner autoencoder --dim 2 --sign utility.key --seal-to ../post/keys/bank.pub --out model
    ;;
send)
    cp model/representation.fedonce ../post/training/utility.fedonce
    ;;
represent)
    fedonce guest represent new_customers.parquet --model model --secret parties.secret --sign utility.key --seal-to ../post/keys/bank.pub --out ../post/prediction/utility.fedonce
    ;;
respond)
    fedonce align respond utility.parquet --id customer --name utility --request ../post/alignment/bank.request --at-most 5000 --out ../post/alignment/utility.response
    ;;
learn-aligned)
    fedonce guest fit utility.parquet --id customer --name utility --run autumn --rows ../post/alignment/utility.rows.sealed --key utility.key --columns contract_since,days_late,late_payments,arrears --learner autoencoder --dim 2 --sign utility.key --out aligned
    cp aligned/representation.fedonce ../post/aligned/utility.fedonce
    ;;
*)
    echo "usage: sh utility.sh keys | learn | send | represent | respond | learn-aligned" >&2
    exit 2
    ;;
esac
