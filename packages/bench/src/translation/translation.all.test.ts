import { testRun } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { describeTranslation, measureTranslation, translationHolds } from './translation.ts';

it('times the first token and a large request, passed on and translated', async () => {
  const figures = await measureTranslation(testRun(), { requests: 20, onProgress: () => {} });
  expect(figures.ways).toHaveLength(5);
  for (const { tokenMs, requestMs } of figures.ways) {
    expect(tokenMs.p50).toBeGreaterThan(0);
    expect(requestMs.p50).toBeGreaterThan(0);
  }
  expect(describeTranslation(figures)).toContain('translated: first token');
  // How long it takes depends on the machine's other work; that both are judged does not.
  expect(translationHolds(figures)).toEqual({ token: expect.any(Boolean), request: expect.any(Boolean) });
});
