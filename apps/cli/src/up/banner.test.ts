import { expect, it } from 'vitest';
import { banner } from './banner.ts';

const FACTS = {
  url: 'http://127.0.0.1:8080',
  dataDir: '/data',
  operatorKeyFile: undefined,
  signInUrl: undefined,
  providers: [],
  execInContainer: undefined,
};

it('recommends Node 24 in one line, only where an older one runs the service', () => {
  const [before, old, next] = ['v24.9.0', 'v22.20.0', 'v26.0.0'].map((nodeVersion) =>
    banner({ ...FACTS, nodeVersion }),
  );
  expect(before).not.toContain('Node');
  expect(next).toBe(before);
  const added = old?.split('\n').filter((line) => !before?.split('\n').includes(line));
  expect(added).toEqual([expect.stringMatching(/^Node v22\.20\.0 works\. Node 24, /)]);
});

it('reads the operator key inside the container, where it runs in one', () => {
  const text = banner({
    ...FACTS,
    operatorKeyFile: '/data/operator-key',
    execInContainer: 'docker exec 0123456789ab',
    nodeVersion: 'v24.9.0',
  });
  expect(text).toContain('Bearer $(docker exec 0123456789ab cat /data/operator-key)');
  expect(text).not.toContain('$(cat ');
});

it('names the console, and a link that signs in where there is one', () => {
  const facts = { ...FACTS, nodeVersion: 'v24.9.0' };
  expect(banner(facts)).toContain('\nConsole:      http://127.0.0.1:8080/console/\n');
  expect(banner(facts)).not.toContain('Sign in:');
  const signInUrl = 'http://127.0.0.1:8080/console/sign-in?code=abc';
  expect(banner({ ...facts, signInUrl })).toContain(
    `\nSign in:      ${signInUrl} (once, within 15 minutes)\n`,
  );
});
