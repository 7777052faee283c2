/* What was traced, and on what. */
#ifndef PSTAR_COLLECT_MACHINE_H
#define PSTAR_COLLECT_MACHINE_H

/* The processor's name and the number of processors that the process may use: "Some CPU @ 2 GHz, 8
 * processors". Free with g_free. */
char *machine_name(void);

/* The name of the program that this process runs. Free with g_free. */
char *machine_program(void);

#endif
