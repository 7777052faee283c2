/* Sanitized programs are five to ten times slower. Property tests draw fewer cases in them, because
 * they repeat the same code; what the cases differ in is checked by the optimised build. */
#ifndef PSTAR_TESTS_SANITIZED_H
#define PSTAR_TESTS_SANITIZED_H

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define UNLESS_SANITIZED(cases, sanitized) (sanitized)
#else
#define UNLESS_SANITIZED(cases, sanitized) (cases)
#endif

#endif
