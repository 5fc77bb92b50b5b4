import { expect, it } from 'vitest';
import { hardModeDocument } from './hardModeDocument.ts';

it('is what docs/hard-mode.md says: after a change of a table, run this test with --update', async () => {
  await expect(hardModeDocument()).toMatchFileSnapshot('../../../docs/hard-mode.md');
});
