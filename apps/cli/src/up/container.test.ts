import { expect, it } from 'vitest';
import { execInContainer } from './container.ts';

it('knows podman by its mark, and the container by its host name', () => {
  expect(execInContainer('0123456789ab', () => false)).toBe('docker exec 0123456789ab');
  expect(execInContainer('0123456789ab', (path) => path === '/run/.containerenv')).toBe(
    'podman exec 0123456789ab',
  );
  expect(execInContainer('gateway', () => false)).toBe('docker exec <CONTAINER>');
});
