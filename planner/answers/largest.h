/* The questions whose answer is a size, for questions.c. They behave like question_answer. */
#ifndef PSTAR_PLANNER_ANSWERS_LARGEST_H
#define PSTAR_PLANNER_ANSWERS_LARGEST_H

#include "planner/answers/questions.h"

bool question_max_model(const struct question *question, FILE *out, bool *stopped, GError **error);
bool question_max_batch(const struct question *question, FILE *out, bool *stopped, GError **error);

#endif
