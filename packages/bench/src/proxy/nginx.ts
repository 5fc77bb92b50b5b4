import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort, startProcess, type TestRun } from '@weighbridge/testing';
import { pinned } from '../shared/service.ts';
import {
  type Absent,
  type Other,
  type OtherOptions,
  plainContender,
  type StartedOther,
} from './contender.ts';

/** nginx as a proxy with persistent connections, in one process; absent if it is not installed. */
export const nginx: Other = { name: 'nginx', start: startNginx };

async function startNginx(
  run: TestRun,
  vendorUrl: string,
  options: OtherOptions,
): Promise<StartedOther | Absent> {
  const found = await findNginx();
  if (!found) return { name: 'nginx', reason: 'not found on the PATH or in /usr/sbin' };
  const folder = await mkdtemp(join(run.folder, 'nginx-'));
  await mkdir(join(folder, 'temp'));
  const port = await freePort();
  const file = join(folder, 'nginx.conf');
  await writeFile(file, configuration(port, new URL(vendorUrl).host));
  const [command = '', ...args] = pinned(options.core, [
    found.binary,
    '-p',
    folder,
    '-c',
    file,
    '-e',
    'stderr',
  ]);
  const process = await startProcess({ command, args, readyWhen: /using the "\w+" event method/ }, run);
  const url = `http://127.0.0.1:${port}`;
  const contender = plainContender('nginx', url, { pid: process.pid, runsOn: undefined });
  const howRun = `${found.version}; one process, persistent connections to the vendor, no buffering; it passes requests on, no more`;
  return { contender: { ...contender, howRun, mayBeStopped: true }, process };
}

async function findNginx(): Promise<{ readonly binary: string; readonly version: string } | undefined> {
  for (const binary of ['nginx', '/usr/sbin/nginx']) {
    const output = await promisify(execFile)(binary, ['-v']).then(
      ({ stderr }) => stderr,
      () => undefined,
    );
    if (output !== undefined)
      return { binary, version: /nginx\/(\S+)/.exec(output)?.[1] ?? 'of an unknown version' };
  }
  return undefined;
}

function configuration(port: number, vendor: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  return `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr notice;
events { worker_connections 1024; }
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path temp/${name};`).join(' ')}
  client_max_body_size 0;
  client_body_buffer_size 2m;
  keepalive_requests 1000000000;
  upstream vendor { server ${vendor}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://vendor;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`;
}
