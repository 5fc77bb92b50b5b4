import { fileURLToPath } from 'node:url';
import { requireLinux } from '@weighbridge/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { randomFrom } from '../faults/random.ts';
import { allFieldCases } from './fields/fieldCases.ts';
import { type FieldsProduct, startFieldsProduct } from './fields/fieldsProduct.ts';
import { inWords, tryFields } from './fields/fieldsProperty.ts';

// The long form, 3,000 cases, is `pnpm test:faults --form fields`.
const CASES = 100;
// Fixed, so that a run does not depend on the draw; the long form draws others.
const SEED = Number(process.env.FIELDS_SEED ?? 1);

async function withProduct(
  nodeOptions: string,
  work: (product: FieldsProduct) => Promise<void>,
): Promise<void> {
  const product = await startFieldsProduct(nodeOptions);
  try {
    await work(product);
  } finally {
    await product.close();
  }
}

describe('a field of a request', () => {
  beforeAll(() => requireLinux('only Linux shows the memory of another process'));
  it(`takes no more time or memory than its body: ${CASES} of all, seed ${SEED}`, async () => {
    await withProduct('', async (product) => {
      const cases = randomFrom(SEED).shuffled(allFieldCases()).slice(0, CASES);
      const result = await tryFields(product, cases);
      process.stdout.write(`fields, seed ${SEED}: ${inWords(result)}\n`);
      expect(result.wrong).toEqual([]);
    });
  });

  it('without a bound fails this test', async () => {
    const planted = fileURLToPath(new URL('fields/unbounded.mjs', import.meta.url));
    await withProduct(`--import=${planted}`, async (product) => {
      const cases = allFieldCases().filter(
        ({ title }) => title === 'plain /v1/chat/completions service_tier: objects',
      );
      const { wrong } = await tryFields(product, cases);
      expect(wrong).toHaveLength(1);
    });
  });
});
