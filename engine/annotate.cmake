pstar_library(engine_annotate annotate.c LINK pstar_traces nvtx)
