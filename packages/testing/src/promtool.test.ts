import { describe, expect, test } from 'vitest';
import { locatePromtool, type PromtoolProbes } from './promtool.ts';

const HOME_CACHE = '/home/u/.cache/weighbridge';
const machine = { path: ['/usr/local/bin', '/usr/bin'], cacheDir: HOME_CACHE };

describe('where promtool comes from', () => {
  test('the PATH, in order, then the cache of an earlier download', async () => {
    const both = machineWith({ binaries: ['/usr/bin/promtool', `${HOME_CACHE}/promtool`] });
    expect(await locatePromtool(machine, '/tmp/run', both)).toBe('/usr/bin/promtool');
    const cached = machineWith({ binaries: [`${HOME_CACHE}/promtool`] });
    expect(await locatePromtool(machine, '/tmp/run', cached)).toBe(`${HOME_CACHE}/promtool`);
  });

  test('else a download, into a temporary folder if there is no home or it is not writable', async () => {
    const writable = machineWith({ downloads: [HOME_CACHE, '/tmp/run'] });
    expect(await locatePromtool(machine, '/tmp/run', writable)).toBe(`${HOME_CACHE}/promtool`);
    expect(await locatePromtool({ ...machine, cacheDir: undefined }, '/tmp/run', writable)).toBe(
      '/tmp/run/promtool',
    );
    const readOnly = machineWith({ downloads: ['/tmp/run'] });
    expect(await locatePromtool(machine, '/tmp/run', readOnly)).toBe('/tmp/run/promtool');
  });

  test('if there is none, the error says what to install', async () => {
    await expect(locatePromtool(machine, '/tmp/run', machineWith({}))).rejects.toThrow(
      /apt-get install prometheus(.|\n)*no package here/,
    );
  });
});

function machineWith({
  binaries = [],
  downloads = [],
}: {
  binaries?: string[];
  downloads?: string[];
}): PromtoolProbes {
  return {
    isPromtool: async (path) => binaries.includes(path),
    download: async (folder) => {
      if (!downloads.includes(folder)) throw new Error('no package here');
      return `${folder}/promtool`;
    },
  };
}
