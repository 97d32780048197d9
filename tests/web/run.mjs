// SPDX-License-Identifier: Apache-2.0
// run.mjs SPILLWAYD [PART OF A NAME]: the dashboard in a browser, over a real daemon.
import { registerAccess } from "./access_test.mjs";
import { registerContexts } from "./contexts_test.mjs";
import { registerLoss } from "./loss_test.mjs";
import { registerOverview } from "./overview_test.mjs";
import { registerWatch } from "./watch_test.mjs";
import { runAll } from "./harness.mjs";
import { World } from "./world.mjs";

const [program, filter] = process.argv.slice(2);
const world = new World();
let failed = 1;
try {
  await world.open(program);
  registerOverview(world);
  registerContexts(world);
  registerAccess(world);
  registerWatch(world);
  registerLoss(world); // Last: it kills the daemon.
  failed = await runAll(filter, () => world.now);
} finally {
  await world.close();
}
process.exit(failed > 0 ? 1 : 0);
