import { describe, expect, test } from 'vitest';
import { locateNats, type NatsProbes } from './natsSource.ts';

const machine = {
  natsUrl: undefined,
  natsServerBin: undefined,
  path: ['/usr/local/bin', '/usr/bin'],
  cacheDir: '/home/u/.cache/weighbridge',
};

describe('where the NATS server comes from', () => {
  test('a server named by TEST_NATS_URL comes first', async () => {
    const env = { ...machine, natsUrl: 'nats://127.0.0.1:4222', natsServerBin: '/opt/nats-server' };
    const world = machineWith({
      servers: ['nats://127.0.0.1:4222'],
      binaries: ['/opt/nats-server'],
      docker: true,
    });
    expect(await locateNats(env, '/tmp/run', world)).toEqual({
      kind: 'shared',
      url: 'nats://127.0.0.1:4222',
    });
  });

  test('a server or binary that is named must work: there is no silent fallback', async () => {
    const world = machineWith({ binaries: ['/usr/bin/nats-server'], docker: true });
    const named = { ...machine, natsUrl: 'nats://127.0.0.1:1' };
    await expect(locateNats(named, '/tmp/run', world)).rejects.toThrow(/TEST_NATS_URL/);
    const wrong = { ...machine, natsServerBin: '/opt/missing' };
    await expect(locateNats(wrong, '/tmp/run', world)).rejects.toThrow(/NATS_SERVER_BIN \(\/opt\/missing\)/);
  });

  test.each([
    ['NATS_SERVER_BIN', { natsServerBin: '/opt/nats-server' }, '/opt/nats-server'],
    ['PATH, in its order', {}, '/usr/local/bin/nats-server'],
    ['/usr/sbin, which is often not on PATH', { path: [] }, '/usr/sbin/nats-server'],
  ])('then a binary: %s', async (_, env, path) => {
    const binaries = ['/opt', '/usr/bin', '/usr/local/bin', '/usr/sbin', machine.cacheDir].map(
      (folder) => `${folder}/nats-server`,
    );
    const world = machineWith({ binaries, docker: true });
    expect(await locateNats({ ...machine, ...env }, '/tmp/run', world)).toEqual({ kind: 'binary', path });
  });

  test('then the cache of an earlier download, then Docker, then a download', async () => {
    const cached = `${machine.cacheDir}/nats-server`;
    const from = (world: World) => locateNats(machine, '/tmp/run', machineWith(world));
    expect(await from({ binaries: [cached], docker: true })).toEqual({ kind: 'binary', path: cached });
    expect(await from({ docker: true, downloads: [machine.cacheDir] })).toEqual({ kind: 'docker' });
    expect(await from({ downloads: [machine.cacheDir] })).toEqual({ kind: 'binary', path: cached });
  });

  test('a download goes to a temporary folder if there is no home or it is not writable', async () => {
    const world = machineWith({ downloads: ['/tmp/run'] });
    const expected = { kind: 'binary', path: '/tmp/run/nats-server' };
    expect(await locateNats({ ...machine, cacheDir: undefined }, '/tmp/run', world)).toEqual(expected);
    expect(await locateNats(machine, '/tmp/run', world)).toEqual(expected);
  });

  test('if there is none, the error says what to install', async () => {
    const failure = locateNats(machine, '/tmp/run', machineWith({}));
    await expect(failure).rejects.toThrow(
      /apt-get install nats-server(.|\n)*NATS_SERVER_BIN(.|\n)*no package here/,
    );
  });
});

interface World {
  servers?: string[];
  binaries?: string[];
  docker?: boolean;
  /** Folders into which a download succeeds. */
  downloads?: string[];
}

function machineWith({ servers = [], binaries = [], docker = false, downloads = [] }: World): NatsProbes {
  return {
    answers: async (url) => servers.includes(url),
    isNatsServer: async (path) => binaries.includes(path),
    dockerAnswers: async () => docker,
    download: async (folder) => {
      if (!downloads.includes(folder)) throw new Error('no package here');
      return `${folder}/nats-server`;
    },
  };
}
