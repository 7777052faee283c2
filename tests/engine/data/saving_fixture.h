/* A folder for checkpoints and a small model that is saved there. */
#ifndef PSTAR_TESTS_ENGINE_DATA_SAVING_FIXTURE_H
#define PSTAR_TESTS_ENGINE_DATA_SAVING_FIXTURE_H

#include "engine/train/checkpoint.h"
#include "small_model.h"

struct saving_fixture {
    char *parent, *folder; /* the folder is missing at first */
    struct small_model *model;
};

/* For g_test_add. */
void saving_set_up(struct saving_fixture *fixture, const void *unused);
void saving_tear_down(struct saving_fixture *fixture, const void *unused);

/* Returns the state of a run after a step; free with checkpoint_state_clear. */
struct checkpoint_state saving_state(uint64_t step);

/* Save a model after a step; the last two checkpoints stay. */
bool saving_save_as(const struct saving_fixture *fixture, struct small_model *model, uint64_t step,
                    struct weights_form form, GError **error);
bool saving_save(const struct saving_fixture *fixture, struct small_model *model, uint64_t step,
                 GError **error);
/* Saves in parts of so many writers, after step 7. */
void saving_save_together(const struct saving_fixture *fixture,
                          const struct checkpoint_content *content, uint32_t writers);

/* Puts the files of the newest checkpoint where earlier versions had them, as they were then. */
void saving_make_earlier(const struct saving_fixture *fixture);

/* Fails the test unless the newest checkpoint has the state of this step and this model's data. */
void saving_expect(const struct saving_fixture *fixture, const struct small_model *model,
                   uint64_t step);

uint32_t saving_count_entries(const char *path);

#endif
