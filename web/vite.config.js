// SPDX-License-Identifier: Apache-2.0
// One page, one script, one style sheet, all of them ours: nothing is asked of
// anybody but the daemon. Names carry a hash of what is in them.
export default {
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
};
