import { expect, it } from 'vitest';
import { longForm } from '../faults/longForm.ts';
import { randomFrom } from '../faults/random.ts';
import { allFieldCases } from './fields/fieldCases.ts';
import { startFieldsProduct } from './fields/fieldsProduct.ts';
import { inWords, tryFields } from './fields/fieldsProperty.ts';

const CASES = 3_000;

it('no field of a request takes more time or memory than its body', async () => {
  const { seed, log } = longForm(process.env);
  const all = allFieldCases();
  const product = await startFieldsProduct();
  try {
    const cases = randomFrom(seed).shuffled(all).slice(0, CASES);
    const result = await tryFields(product, cases, (text) => log('WRONG', text));
    log('figures', `seed ${seed}, of ${all.length}: ${inWords(result)}`);
    expect(result.wrong).toEqual([]);
  } finally {
    await product.close();
  }
});
