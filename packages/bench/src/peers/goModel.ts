import { randomBytes } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '@weighbridge/testing';
import type { Other } from '../proxy/contender.ts';
import { hasOnlyLoopback } from './loopback.ts';
import { callPeer, findBinary, orAbsent, PEER_MODEL, startedPeer, startPeer } from './peer.ts';

/** It has no setting that disables the list of models which it gets from the network: nothing listens there. */
const NOWHERE = 'http://127.0.0.1:1/';

const BUDGET = {
  BUDGETS_ENABLED: 'true',
  // Of the root path, which every key is below.
  SET_BUDGET_: 'monthly=1000000000',
};

/**
 * GoModel (Go), https://github.com/ENTERPILOT/GoModel: with a monthly budget, which it sums up from the recorded usage for each
 * request, or with keys and usage alone.
 */
export function goModel(kind: 'with a budget' | 'without budgets'): Other {
  const name = `GoModel, ${kind}`;
  const hasBudget = kind === 'with a budget';
  return {
    name,
    start: (run, vendorUrl, { core }) =>
      orAbsent(name, async () => {
        const { path, version } = await findBinary('BENCH_GOMODEL', 'gomodel');
        if (!hasOnlyLoopback()) {
          throw new Error(
            'it listens on all interfaces: run as root, so that the benchmark can hide those of the machine',
          );
        }
        const folder = await mkdtemp(join(run.folder, 'gomodel-'));
        const port = await freePort();
        const masterKey = randomBytes(24).toString('hex');
        const env = {
          PORT: String(port),
          GOMAXPROCS: '1',
          GOMODEL_MASTER_KEY: masterKey,
          OPENAI_API_KEY: 'none',
          OPENAI_BASE_URL: `${vendorUrl}/v1`,
          OPENAI_MODELS: PEER_MODEL,
          CONFIGURED_PROVIDER_MODELS_MODE: 'allowlist',
          MODEL_LIST_URL: NOWHERE,
          STORAGE_TYPE: 'sqlite',
          SQLITE_PATH: join(folder, 'gomodel.db'),
          USAGE_ENABLED: 'true',
          LOG_LEVEL: 'error',
          ...(hasBudget ? BUDGET : { BUDGETS_ENABLED: 'false' }),
        };
        const process = await startPeer(run, { command: [path], env, cwd: folder, port, core });
        const url = `http://127.0.0.1:${port}/admin/api/v1/auth-keys`;
        const { value } = await callPeer(url, masterKey, { name: 'bench' });
        return startedPeer(process, {
          name: `GoModel ${version}, ${kind}`,
          port,
          model: `openai/${PEER_MODEL}`,
          tokens: [String(value)],
          isGoverned: hasBudget,
          howRun: `${version}; GOMAXPROCS=1, a managed key, usage in SQLite, ${hasBudget ? 'a monthly budget' : 'BUDGETS_ENABLED=false'}, LOG_LEVEL=error`,
        });
      }),
  };
}
