#!/bin/bash
#SBATCH --job-name=rsfd-dask
#SBATCH --ntasks=64
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@60
file=$PWD/scheduler-$SLURM_JOB_ID.json
dask scheduler --scheduler-file "$file" --no-dashboard &
scheduler=$!
until [ -s "$file" ]; do sleep 1; done
srun --overlap dask worker --scheduler-file "$file" --nthreads 1 --no-nanny --no-dashboard \
    --memory-limit 0 --local-directory "${TMPDIR:-/tmp}" --death-timeout 60 &
workers=$!
gpu-rsfd sweep --spec sweep.toml --output results.h5 --cluster "$file" &
sweep=$!
trap 'kill -TERM $sweep; wait $sweep' TERM
wait $sweep
status=$?
kill $workers $scheduler
rm -f "$file"
exit $status
