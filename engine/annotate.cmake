pstar_library(engine_annotate train/annotate.c LINK pstar_traces nvtx)
