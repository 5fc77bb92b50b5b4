import { randomBytes } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '@weighbridge/testing';
import type { Other } from '../proxy/contender.ts';
import { callPeer, findBinary, orAbsent, PEER_MODEL, startedPeer, startPeer } from './peer.ts';

const POOL = 'fast';

/** Busbar (Rust), https://github.com/GetBusbar/busbar: open, or with signed keys and the limits of a group. */
export function busbar(kind: 'open' | 'governed'): Other {
  const name = `Busbar, ${kind}`;
  return {
    name,
    start: (run, vendorUrl, { core }) =>
      orAbsent(name, async () => {
        const { path, version } = await findBinary('BENCH_BUSBAR', 'busbar');
        const folder = await mkdtemp(join(run.folder, 'busbar-'));
        const [port, adminPort] = [await freePort(), await freePort()];
        const secret = () => randomBytes(32).toString('hex');
        const adminToken = secret();
        const write = (file: string, text: string) => writeFile(join(folder, file), text, { mode: 0o600 });
        await write(
          'providers.yaml',
          `openai: { protocol: openai, base_url: "${vendorUrl}", error_map: {} }\n`,
        );
        await write('signing.key', secret());
        await write('config.yaml', configuration(kind, folder, port, adminPort));
        const env = {
          BUSBAR_CONFIG: join(folder, 'config.yaml'),
          BUSBAR_ADMIN_TOKEN: adminToken,
          OPENAI_KEY: 'none',
        };
        const process = await startPeer(run, { command: [path], env, cwd: folder, port, core });
        let token = 'none';
        if (kind === 'governed') {
          const url = `http://127.0.0.1:${adminPort}/api/v1/admin/keys`;
          token = String((await callPeer(url, adminToken, { name: 'bench', group: 'bench' })).token);
        }
        return startedPeer(process, {
          name: `Busbar ${version}, ${kind}`,
          port,
          model: POOL,
          tokens: [token],
          isGoverned: kind === 'governed',
          howRun: `${version}, built for release; one worker thread, one pool; ${kind === 'open' ? 'no keys' : 'a signed key; limits on requests, tokens and budget of its group; a rate card; kept in memory, as by default'}`,
        });
      }),
  };
}

function configuration(kind: 'open' | 'governed', folder: string, port: number, adminPort: number): string {
  const governed = `
rate_card: { ${PEER_MODEL}: { input_utok: 0.15, output_utok: 0.6 } }
groups:
  bench:
    limits:
      - { requests: 2000000000, per: minute }
      - { tokens: 2000000000000, per: minute }
      - { budget: 1000000000000, per: month }`;
  return `
listen: "127.0.0.1:${port}"
admin_listen: "127.0.0.1:${adminPort}"
providers_file: ${join(folder, 'providers.yaml')}
identity-providers:
  admin-tokens: { module: admin-tokens, token: { env: BUSBAR_ADMIN_TOKEN } }
auth:
  chain: ${kind === 'open' ? '[]' : '[keys]'}
  admin_auth: [admin-tokens]
  signing_key: { file: ${join(folder, 'signing.key')} }
providers:
  openai: { api_key: { env: OPENAI_KEY } }
models:
  ${PEER_MODEL}: { provider: openai }
pools:
  ${POOL}: { members: [ { model: ${PEER_MODEL}, weight: 1 } ] }
advanced: { worker_threads: 1 }${kind === 'open' ? '' : governed}
`;
}
