import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import {
  createTestDatabase,
  eventually,
  freePort,
  startNats,
  type TestDatabase,
  type TestNats,
} from '@weighbridge/testing';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningProcess, startApp } from './processes.ts';

async function certificate(): Promise<{ cert: string; private: string }> {
  return await generate([{ name: 'commonName', value: 'weighbridge' }], {
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
  });
}

describe('the apps with mutual TLS', () => {
  let database: TestDatabase;
  let nats: TestNats;
  let folder: string;
  let controlPlane: RunningProcess;
  let grpc: number;
  const started: RunningProcess[] = [];

  /** Writes an app's three files and returns the settings that name them. */
  async function files(name: string, own: { cert: string; private: string }, trusted: readonly string[]) {
    const path = (kind: string) => join(folder, `${name}.${kind}`);
    await writeFile(path('crt'), own.cert);
    await writeFile(path('key'), own.private);
    await writeFile(path('ca'), trusted.join('\n'));
    return {
      CONTROL_TLS_CERTIFICATE_FILE: path('crt'),
      CONTROL_TLS_KEY_FILE: path('key'),
      CONTROL_TLS_CA_FILE: path('ca'),
    };
  }
  const startDataPlane = async (env: Record<string, string>, until: RegExp) => {
    const settings = {
      NATS_URL: nats.url,
      PORT: String(await freePort()),
      CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}`,
    };
    const process = await startApp('data-plane', { ...settings, ...env }, until);
    started.push(process);
    return process;
  };

  /** The fingerprint of the certificate that the control plane serves now. */
  async function shownCertificate(): Promise<string> {
    const socket = connect({
      port: grpc,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
    });
    try {
      await once(socket, 'secureConnect');
      return socket.getPeerCertificate().fingerprint256;
    } finally {
      socket.destroy();
    }
  }

  let ours: { cert: string; private: string };
  let theirs: { cert: string; private: string };
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
    [database, nats, ours, theirs] = await Promise.all([
      createTestDatabase(),
      startNats(),
      certificate(),
      certificate(),
    ]);
    grpc = await freePort();
    controlPlane = await startApp(
      'control-plane',
      {
        DATABASE_URL: database.url,
        PORT: String(await freePort()),
        GRPC_PORT: String(grpc),
        OPERATOR_KEY_FILE: join(folder, 'operator-key'),
        MOCK_VENDOR_URL: 'http://127.0.0.1:1/v1',
        ...(await files('control-plane', ours, [theirs.cert])),
      },
      /is ready/,
    );
  });
  afterAll(async () => {
    await Promise.all([controlPlane, ...started].map((process) => process?.stop('SIGKILL')));
    await Promise.all([nats?.stop(), database?.drop(), rm(folder, { recursive: true, force: true })]);
  });

  it('find each other, and reload a renewed certificate without a restart', async () => {
    const proxy = await startDataPlane(await files('proxy', theirs, [ours.cert]), /is ready/);
    const renewed = await certificate();
    // Trusted first, then served, as certificates are rolled over.
    await files('proxy', theirs, [ours.cert, renewed.cert]);
    await files('control-plane', renewed, [theirs.cert]);
    await eventually(
      async () => expect(await shownCertificate()).toBe(new X509Certificate(renewed.cert).fingerprint256),
      {
        intervalMs: 100,
      },
    );
    expect(proxy.output()).not.toContain('lost the stream');
    // A new app that trusts only the renewed certificate connects: that one is being served.
    await startDataPlane(await files('newer', theirs, [renewed.cert]), /is ready/);
  });

  it('accept only certificates that they trust, and connect only to those', async () => {
    const stranger = await certificate();
    const strangers = await startDataPlane(
      await files('stranger', stranger, [ours.cert]),
      /lost the stream .*; reconnecting/,
    );
    const plain = await startDataPlane({}, /lost the stream .*; reconnecting/);
    const fooled = await startDataPlane(
      await files('fooled', theirs, [stranger.cert]),
      /lost the stream .*; reconnecting/,
    );
    await eventually(
      () => {
        for (const process of [strangers, plain, fooled]) {
          expect(process.output().match(/lost the stream .*; reconnecting/g)?.length).toBeGreaterThan(2);
          expect(process.output()).not.toContain('is ready');
        }
      },
      { intervalMs: 100 },
    );
  });

  it('report missing settings', async () => {
    const half = { CONTROL_TLS_KEY_FILE: join(folder, 'proxy.key') };
    await startDataPlane(half, /CONTROL_TLS_CERTIFICATE_FILE and CONTROL_TLS_CA_FILE is missing/);
    const absent = { ...(await files('absent', ours, [])), CONTROL_TLS_CA_FILE: join(folder, 'nowhere.ca') };
    await startDataPlane(absent, /Can't read .*nowhere\.ca/);
    const open = { DATABASE_URL: database.url, GRPC_HOST: '0.0.0.0', PORT: '0', GRPC_PORT: '0' };
    started.push(await startApp('control-plane', open, /CONTROL_TLS_CERTIFICATE_FILE is missing/));
    started.push(
      await startApp(
        'control-plane',
        { ...open, GRPC_PLAINTEXT: 'true', CONTROL_PLANE_TOKEN: '' },
        /CONTROL_PLANE_TOKEN is missing/,
      ),
    );
  });
});
