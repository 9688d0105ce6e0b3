#!/bin/bash
umask 077
openssl req -x509 -newkey rsa:3072 -nodes -days 30 -subj /CN=rsfd \
    -keyout rsfd.key -out rsfd.pem 2>openssl.log
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE=$PWD/rsfd.pem
for role in SCHEDULER WORKER CLIENT; do
    export DASK_DISTRIBUTED__COMM__TLS__${role}__CERT=$PWD/rsfd.pem
    export DASK_DISTRIBUTED__COMM__TLS__${role}__KEY=$PWD/rsfd.key
done
dask scheduler --protocol tls --port 0 --scheduler-file tls.json --no-dashboard &
scheduler=$!
dask worker --scheduler-file tls.json --nthreads 1 --no-nanny --no-dashboard &
worker=$!
until [ -s tls.json ]; do sleep 0.2; done
gpu-rsfd sweep --spec sweep.toml --output results.h5 --cluster tls.json --quiet
status=$?
kill $worker && wait $worker
kill $scheduler && wait $scheduler
exit $status
