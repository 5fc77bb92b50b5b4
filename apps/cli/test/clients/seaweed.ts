import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort, startProcess, type TestProcess } from '@weighbridge/testing';

export interface Seaweed {
  /** Where it speaks S3. */
  readonly url: string;
  readonly process: TestProcess;
}

const HOST = '127.0.0.1';
const SERVERS = ['master', 'volume', 'filer', 's3'];

/** Starts SeaweedFS, an object store that checks signatures, in a folder. */
export async function startSeaweed(
  weed: string,
  folder: string,
  credentials: { readonly accessKeyId: string; readonly secretAccessKey: string },
): Promise<Seaweed> {
  const data = join(folder, 'data');
  await mkdir(data, { recursive: true });
  const config = join(folder, 's3.json');
  const { accessKeyId: accessKey, secretAccessKey: secretKey } = credentials;
  const identity = {
    name: 'ledger',
    credentials: [{ accessKey, secretKey }],
    actions: ['Admin', 'Read', 'Write', 'List'],
  };
  await writeFile(config, JSON.stringify({ identities: [identity] }));
  const ports = await Promise.all(SERVERS.flatMap(() => [freePort(), freePort()]));
  const onPorts = SERVERS.flatMap((name, n) => [
    `-${name}.port=${ports[2 * n]}`,
    `-${name}.port.grpc=${ports[2 * n + 1]}`,
  ]);
  const url = `http://${HOST}:${ports.at(-2)}`;
  const process = await startProcess({
    command: weed,
    args: [
      ...['-logtostderr', 'server', `-dir=${data}`, `-ip=${HOST}`, `-ip.bind=${HOST}`],
      ...['-filer', '-s3', `-s3.config=${config}`, '-s3.iam=false', '-s3.port.iceberg=0', '-s3.port.lance=0'],
      ...['-volume.max=20', '-master.volumeSizeLimitMB=64', ...onPorts],
    ],
    cwd: folder,
    readyWhen: /Start Seaweed S3 API Server .*http port/,
  });
  return { url, process };
}
