// Loaded into an app's process first (`node --import`): at SIGUSR2 it collects garbage, and writes what is left to a file.
import fs from 'node:fs';
import v8 from 'node:v8';
import vm from 'node:vm';

// biome-ignore lint/style/noProcessEnv: it is no part of the app, whose settings are read in one place.
const { FAULTS_FILE = '' } = process.env;
v8.setFlagsFromString('--expose-gc');
const collect = vm.runInNewContext('gc');
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Without compiled code, which grows during the warm-up. */
function objectBytes() {
  const spaces = v8.getHeapSpaceStatistics().filter(({ space_name }) => !space_name.includes('code'));
  return spaces.reduce((sum, space) => sum + space.space_used_size, process.memoryUsage().external);
}

let asked = 0;
process.on('SIGUSR2', async () => {
  asked++;
  // Objects released by finalizers become garbage only after a collection.
  let heapBytes = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 4; round++) {
    collect();
    heapBytes = Math.min(heapBytes, objectBytes());
    await wait(50);
  }
  const resources = {};
  for (const name of process.getActiveResourcesInfo()) resources[name] = (resources[name] ?? 0) + 1;
  const listeners = process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
  const files = fs.existsSync('/proc/self/fd') ? fs.readdirSync('/proc/self/fd').length : 0;
  const found = { asked, heapBytes, files, resources, listeners };
  fs.writeFileSync(`${FAULTS_FILE}.memory.new`, JSON.stringify(found));
  fs.renameSync(`${FAULTS_FILE}.memory.new`, `${FAULTS_FILE}.memory`);
});
