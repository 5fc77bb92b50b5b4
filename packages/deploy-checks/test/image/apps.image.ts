import { setTimeout as sleep } from 'node:timers/promises';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import {
  createEmptyDatabase,
  eventually,
  freePort,
  startNats,
  type TestDatabase,
  type TestNats,
} from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chartEnvironment, OPERATOR_KEY } from '../../src/chartEnvironment.ts';
import { manifests } from '../../src/helm.ts';
import { type Manifest, workload } from '../../src/manifests.ts';
import { buildImage } from './buildImages.ts';
import { type Container, runContainer, startContainer, untilReady } from './containers.ts';
import { type Engine, openEngine } from './engine.ts';

const IMAGE = 'weighbridge-test';
/** Of these, the library with which the control plane and metering read the archive has 71 MB. */
const MAX_IMAGE_BYTES = 320 * 1024 * 1024;
const MIB = 1024 * 1024;

let engine: Engine;
let rendered: Manifest[];
beforeAll(async () => {
  engine = await openEngine();
  rendered = await manifests('--set', 'tls.enabled=false,nats.replicas=1');
  await buildImage(engine, IMAGE);
}, 1_800_000);

const memoryOf = (app: string) => workload(rendered, app).pod.containers[0]?.resources?.limits?.memory ?? '';

describe('the content of the image', () => {
  it('is small, and has no shell, no package manager and no file that runs with the rights of its owner', async () => {
    expect(Number(await engine(['image', 'inspect', '--format', '{{.Size}}', IMAGE]))).toBeLessThan(
      MAX_IMAGE_BYTES,
    );
    for (const command of ['sh', 'npm', 'apt']) {
      const run = engine(['run', '--rm', '--pull', 'never', '--entrypoint', command, IMAGE]);
      await expect(run, command).rejects.toThrow(/not found|no such file/i);
    }
    const script = `
      const { readdirSync, statSync } = require('node:fs');
      const found = [];
      const look = (folder) => {
        for (const entry of readdirSync(folder, { withFileTypes: true })) {
          const path = folder + '/' + entry.name;
          if (entry.isDirectory()) look(path);
          if (entry.isFile() && statSync(path).mode & 0o6000) found.push(path);
        }
      };
      for (const folder of ['/app', '/etc', '/lib', '/lib64', '/usr', '/var']) look(folder);
      console.log(JSON.stringify(found));`;
    expect(JSON.parse(await runContainer(engine, { image: IMAGE, args: ['-e', script] }))).toEqual([]);
  });
});

describe('the containers, run as the chart runs them,', () => {
  let database: TestDatabase;
  let nats: TestNats;
  let vendor: MockVendor;
  let ports: { api: number; grpc: number; inference: number; health: number; metrics: number[] };
  const running: Container[] = [];

  const environment = (app: string): Record<string, string> =>
    chartEnvironment(rendered, app, {
      DATABASE_URL: database.url,
      NATS_URL: nats.url,
      CONTROL_PLANE_ADDRESS: `127.0.0.1:${ports.grpc}`,
      PROXY_NAME: 'pod-0',
      ...{
        'control-plane': { PORT: ports.api, GRPC_PORT: ports.grpc, METRICS_PORT: ports.metrics[0] },
        'data-plane': { PORT: ports.inference, METRICS_PORT: ports.metrics[1] },
        metering: { PORT: ports.health, METRICS_PORT: ports.metrics[2] },
      }[app],
    });
  const optionsOf = (app: string) => ({
    image: IMAGE,
    args: workload(rendered, app).pod.containers[0]?.args ?? [],
    env: { ...environment(app), ...(app === 'control-plane' && { MOCK_VENDOR_URL: vendor.url }) },
    memory: memoryOf(app),
    volumes: app === 'data-plane' ? [`${volume}:/var/lib/weighbridge`] : [],
  });
  let volume: string;
  const start = async (app: string) => {
    const container = await startContainer(engine, optionsOf(app));
    running.push(container);
    return container;
  };

  beforeAll(async () => {
    volume = `weighbridge-test-${process.pid}`;
    [database, nats, vendor] = await Promise.all([createEmptyDatabase(), startNats(), startMockVendor()]);
    const [api = 0, grpc = 0, inference = 0, health = 0, ...metrics] = await Promise.all(
      Array.from({ length: 7 }, () => freePort()),
    );
    ports = { api, grpc, inference, health, metrics };
  });
  afterAll(async () => {
    await Promise.all(running.map((container) => container.remove()));
    await engine(['volume', 'rm', '--force', volume]);
    await Promise.all([database?.drop(), nats?.stop(), vendor?.close()]);
  });

  const operate = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`http://127.0.0.1:${ports.api}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Record<string, unknown>;
  };

  it('migrate, serve, meter, survive a kill and a large load, and end on SIGTERM', async () => {
    const migration = { ...optionsOf('migrate'), memory: memoryOf('migrate') };
    expect(await runContainer(engine, migration)).toContain('applied 0001-initial');
    const controlPlane = await start('control-plane');
    const metering = await start('metering');
    let dataPlane = await start('data-plane');
    await untilReady(ports.api, controlPlane);
    await untilReady(ports.health, metering);
    await untilReady(ports.inference, dataPlane);

    const { id, key } = await operate('POST', '/keys', { name: 'app', principal_id: 'app' });
    const ask = async (content: string) => {
      const response = await fetch(`http://127.0.0.1:${ports.inference}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content }] }),
      });
      await response.arrayBuffer();
      return response.status;
    };
    await eventually(async () => expect(await ask('Hi')).toBe(200));

    // Usage that NATS did not take is in the volume when the container is killed.
    if (nats.pid !== undefined) process.kill(nats.pid, 'SIGSTOP');
    expect([await ask('Hi'), await ask('Hi')]).toEqual([200, 200]);
    await dataPlane.signal('KILL');
    await dataPlane.wait();
    if (nats.pid !== undefined) process.kill(nats.pid, 'SIGCONT');
    dataPlane = await start('data-plane');
    await untilReady(ports.inference, dataPlane);
    await eventually(
      async () => {
        const { data } = await operate('GET', `/requests?key_id=${id}`);
        expect([data, vendor.bill]).toEqual([
          expect.objectContaining({ length: 3 }),
          expect.objectContaining({ length: 3 }),
        ]);
      },
      { intervalMs: 200 },
    );

    // Bodies that together exceed the container's memory are refused, some for the key's budget, and do not end it.
    const large = 'x'.repeat(30 * MIB);
    const statuses = await Promise.all(Array.from({ length: 16 }, () => ask(large).catch(() => 0)));
    expect(statuses.filter((status) => ![200, 413, 429, 503].includes(status))).toEqual([]);
    await eventually(async () => expect(await ask('Hi')).toBe(200));

    for (const container of [dataPlane, metering, controlPlane]) {
      await container.signal('TERM');
      expect([container.name, await container.wait()]).toEqual([container.name, 0]);
    }
  }, 300_000);

  it.each(['control-plane', 'data-plane', 'metering', 'migrate'])(
    '%s ends by SIGTERM, whenever that comes',
    async (app) => {
      for (const delayMs of [0, 20, 100, 300, 600, 1_000, 1_500]) {
        const container = await start(app);
        await sleep(delayMs);
        await container.signal('TERM').catch(() => {}); // It may have ended by itself.
        // An app that missed the signal would never end.
        await container.wait();
        await container.remove();
      }
    },
    180_000,
  );
});
