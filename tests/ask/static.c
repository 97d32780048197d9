/* SPDX-License-Identifier: Apache-2.0
 * A program without a loader. */
int main(void) { return 0; }
