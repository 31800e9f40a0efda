# env.sh: what a vLLM of setup.sh needs on the CPU; to be sourced.
BASE=${SERVEBENCH_VLLM:-${XDG_CACHE_HOME:-$HOME/.cache}/servebench-vllm}
VENV=$BASE/venv
export VLLM_TARGET_DEVICE=cpu HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1
[ -e "$VENV/lib/libiomp5.so" ] && export LD_PRELOAD="$VENV/lib/libiomp5.so${LD_PRELOAD:+:$LD_PRELOAD}"
# One engine process. The default, the "mp" executor, has a worker that spins on
# sched_yield and starves all others on a machine of two cores, for seconds.
export VLLM_ENABLE_V1_MULTIPROCESSING=0
export KMP_BLOCKTIME=1 PATH="$VENV/bin:$PATH"
