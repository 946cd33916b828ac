/* The C interface from C99, through the shared library: what a program in another language does. It
 * prints what is wrong, or nothing, and returns 1 or 0. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/abi/tessera.h"

static int failures = 0;

static void expect(int holds, const char* claim) {
  if (holds) return;
  printf("not so: %s (last error: %s)\n", claim, tessera_last_error());
  ++failures;
}

/* A 3 x 4 matrix: row 0 has columns 1 and 3, row 1 is empty, row 2 has column 0. */
static const int64_t offsets[] = {0, 2, 2, 3};
static const int32_t columns[] = {1, 3, 0};
static const float values[] = {2, -1, 0.5f};
static const tessera_csr a = {3, 4, 3, offsets, columns, values};

static void multiply_on_the_cpu(void) {
  /* Rows of B are 3 elements apart, of which two are B's. */
  const float b[] = {1, 2, 99, 3, 4, 99, 5, 6, 99, 7, 8, 99};
  float c[6] = {1, 1, 1, 1, 1, 1};
  expect(tessera_spmm_cpu(&a, 2, TESSERA_FP32, NULL, b, 3, c, 2, 2, 10) == TESSERA_OK,
         "a product on the CPU succeeds");
  expect(c[0] == 8 && c[1] == 10 && c[2] == 10 && c[3] == 10 && c[4] == 11 && c[5] == 12,
         "C = 2 A B + 10 C");
  expect(tessera_spmm_cpu(&a, 2, TESSERA_FP32, NULL, b, 1, c, 2, 1, 0) == TESSERA_INVALID,
         "rows of B that overlap are refused");
  expect(strstr(tessera_last_error(), "B") != NULL, "the message names B");
}

static void multiply_on_the_gpu(void) {
  tessera_spmm_options options;
  tessera_spmm_plan* plan = (tessera_spmm_plan*)&options;
  tessera_spmm_options_init(&options);
  options.precision = TESSERA_FP32_ACCURATE;
  if (tessera_has_gpu()) return; /* the device tests multiply */
  expect(tessera_spmm_plan_create(&a, 8, &options, &plan) == TESSERA_UNSUPPORTED,
         "a plan without a GPU is unsupported");
  expect(plan == NULL, "a failed call returns a null pointer");
  expect(strstr(tessera_last_error(), "a plan needs a GPU") != NULL, "the message says why");
}

static void describe(void) {
  char* json = NULL;
  int32_t rows[3], cols[4];
  expect(tessera_pack(&a, "bit_tcf", &json) == TESSERA_OK && json != NULL &&
             strstr(json, "\"round_trip_exact\":true") != NULL,
         "a packing is described");
  tessera_free(json);
  expect(tessera_reorder(&a, "degree", rows, cols, NULL) == TESSERA_OK && rows[0] == 0 &&
             rows[1] == 2 && rows[2] == 1 && cols[3] == 3,
         "rows are ordered by their nonzeros");
  expect(tessera_reorder(&a, "degre", rows, cols, NULL) == TESSERA_INVALID &&
             strstr(tessera_last_error(), "degree") != NULL,
         "a misspelt name has a suggestion");
}

int main(void) {
  expect(tessera_abi_version() == TESSERA_ABI_VERSION, "header and library are of one version");
  expect(strncmp(tessera_version(), "tessera ", 8) == 0, "the library has a version");
  multiply_on_the_cpu();
  multiply_on_the_gpu();
  describe();
  return failures != 0;
}
