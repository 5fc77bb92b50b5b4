import { expect, test } from 'vitest';
import { requireLinux } from './requireLinux.ts';

test('on another system than Linux, a test that needs it fails, and says why', () => {
  expect(() => requireLinux('only it shows what a process uses', 'darwin')).toThrow(
    'This test needs Linux: only it shows what a process uses. Run it in a container, such as node:24-bookworm.',
  );
  expect(() => requireLinux('', 'linux')).not.toThrow();
});
