/* What a program was traced on. */
#ifndef PSTAR_COLLECT_MACHINE_H
#define PSTAR_COLLECT_MACHINE_H

/* The processor's name and the number of processors that the process may use: "Some CPU @ 2 GHz, 8
 * processors". Free with g_free. */
char *machine_name(void);

#endif
