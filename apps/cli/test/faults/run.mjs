// The long forms of the failure tests: `pnpm test:faults --form random --seed N --minutes M`. See docs/faults.md.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  // pnpm passes on a `--` before the options.
  args: process.argv.slice(2).filter((argument) => argument !== '--'),
  options: {
    form: { type: 'string', default: 'random' },
    seed: { type: 'string' },
    minutes: { type: 'string', default: '10' },
  },
});
const seed = values.seed ?? String(Math.floor(Math.random() * 1_000_000_000));
const FORMS = [
  'random',
  'rolling',
  'soak',
  'leaks',
  'memory',
  'bill',
  'leases',
  'hostile',
  'framing',
  'fields',
  'differential',
  'upgrade',
  'restore',
];
if (!FORMS.includes(values.form) || !/^\d{1,9}$/.test(seed) || !/^\d{1,4}(\.\d+)?$/.test(values.minutes)) {
  process.stderr.write(`Usage: pnpm test:faults --form ${FORMS.join('|')} --seed N --minutes M\n`);
  process.exit(2);
}
const root = fileURLToPath(new URL('../../../../', import.meta.url));
const config = 'packages/testing/vitest.faults.config.ts';
const { status } = spawnSync('vitest', ['run', '--config', config, `/${values.form}.faults.ts`], {
  cwd: root,
  stdio: 'inherit',
  // biome-ignore lint/style/noProcessEnv: the tests get all of it, and what they are to do.
  env: { ...process.env, FAULTS_SEED: seed, FAULTS_MINUTES: values.minutes },
});
process.exit(status ?? 1);
