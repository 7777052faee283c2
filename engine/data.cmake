# Files that a training run reads and writes: tokens, weights, checkpoints; and what is a function of
# the step or the seed alone.
pstar_library(engine_data data.c schedule.c initialise.c weights.c checkpoint.c checkpoint_state.c
  LINK pstar_engine_kernels pstar_models PkgConfig::JANSSON)
