#!/bin/sh
# The bank, the host. It works in its own folder and takes from ../post what guests send: sh bank.sh STEP
set -eu
cd "$(dirname "$0")/bank"
step=${1:-}

case $step in
keys)
    fedonce keys new bank
    fedonce keys secret parties.secret
    cp bank.pub ../post/keys/
    ;;
alone)
    fedonce host fit bank.csv --id customer --label repaid --name bank --min-guests 0 --epochs 5 --out alone
    fedonce host evaluate held_back.csv --model alone
    ;;
train)
    fedonce host fit bank.csv --id customer --label repaid --name bank --run spring --secret parties.secret --inbox ../post/training --expect shop,utility --deadline 3s --verify shop=../post/keys/shop.pub --verify utility=../post/keys/utility.pub --key bank.key --epochs 5 --out model
    ;;
refit)
    fedonce host fit bank.csv --refit --secret parties.secret --guest ../post/training/utility.fedonce --verify utility=../post/keys/utility.pub --key bank.key --out model
    ;;
evaluate)
    fedonce host evaluate held_back.csv --model model --inbox ../post/prediction --expect shop,utility --secret parties.secret --verify shop=../post/keys/shop.pub --verify utility=../post/keys/utility.pub --key bank.key
    ;;
predict)
    fedonce host predict new_customers.csv --model model --inbox ../post/prediction --expect shop,utility --secret parties.secret --verify shop=../post/keys/shop.pub --verify utility=../post/keys/utility.pub --key bank.key --out predictions.csv
    ;;
explain)
    fedonce host explain held_back.csv --model model --inbox ../post/prediction --expect shop,utility --secret parties.secret --key bank.key --out worth.png
    ;;
request)
    fedonce align request bank.csv --id customer --name bank --run autumn --out bank.request
    cp bank.request ../post/alignment/
    ;;
finish)
    fedonce align finish bank.csv --id customer --state bank.request.state --response ../post/alignment/shop.response --response ../post/alignment/utility.response --seal-to shop=../post/keys/shop.pub --seal-to utility=../post/keys/utility.pub --out agreed
    cp agreed/*.sealed ../post/alignment/
    ;;
train-aligned)
    fedonce host fit bank.csv --id customer --label repaid --name bank --run autumn --rows agreed/shop.rows --rows agreed/utility.rows --inbox ../post/aligned --expect shop,utility --verify shop=../post/keys/shop.pub --verify utility=../post/keys/utility.pub --epochs 5 --out aligned
    ;;
*)
    echo "usage: sh bank.sh keys | alone | train | refit | evaluate | predict | explain | request | finish | train-aligned" >&2
    exit 2
    ;;
esac
