# Files that a training run reads and writes: tokens, weights, checkpoints; and what is a function of
# the step or the seed alone.
pstar_library(engine_data train/checkpoint.c train/checkpoint_files.c train/checkpoint_folder.c train/checkpoint_manifest.c train/checkpoint_state.c train/data.c train/data_kind.c train/file_pieces.c train/model_files.c train/pace.c train/schedule.c train/token_array.c train/token_mask.c adapters.c weights.c
  LINK pstar_engine_kernels pstar_models PkgConfig::JANSSON PkgConfig::ZLIB)
