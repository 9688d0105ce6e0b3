#!/bin/bash
#SBATCH --job-name=rsfd
#SBATCH --array=1-16
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@60
PARTS=16  # not SLURM_ARRAY_TASK_COUNT: that is smaller when some parts are run again
srun gpu-rsfd sweep --spec sweep.toml --output results.h5 --part "$SLURM_ARRAY_TASK_ID/$PARTS" \
    --workers "$SLURM_CPUS_PER_TASK" --quiet
