import fc from 'fast-check';
import { expect, it } from 'vitest';
import { post } from './post.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor();
const proxy = useProxy(vendor);

const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
const scalar = fc.oneof(
  fc.constantFrom('null', 'true', 'false', '-0', '1.0', '1e2', '1E+02', '12345678901234567890', '0.10'),
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
  fc.constantFrom('"\\ud800"', '"\\u0000\\/"', '"\\"model\\":1"', '"é😀"', '""'),
);
/** JSON text, in every spelling that JSON allows. */
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc
      .tuple(space, fc.array(tie('value'), { maxLength: 3 }))
      .map(([gap, items]) => `[${gap}${items.join(`${gap},`)}]`),
    fc
      .tuple(space, fc.array(fc.tuple(key(), tie('value')), { maxLength: 3 }))
      .map(
        ([gap, members]) =>
          `{${gap}${members.map(([name, item]) => `${name}${gap}:${item}`).join(`,${gap}`)}}`,
      ),
  ),
}));

function key() {
  return fc.oneof(
    fc.constantFrom('"messages"', '"model "', '"Model"', '"x"', '"x"', '"stream_option"'),
    fc.string({ unit: 'binary' }).map((text) => JSON.stringify(`k${text}`)),
  );
}

/** Another spelling of `model` at the top level is refused: some vendors match names in any case. */
const otherKey = key().filter((name) => name !== '"Model"');

const body = fc.record({
  others: fc.array(fc.tuple(otherKey, value), { maxLength: 6 }),
  gap: space,
  at: fc.nat({ max: 6 }),
  modelKey: fc.constantFrom('"model"', '"mod\\u0065l"'),
  model: fc.constantFrom('"mock/echo"', '"mock\\/echo"', '"\\u006dock/echo"'),
  streams: fc.boolean(),
});

/** A body with the client's or the vendor's name of the model. */
function write(
  { others, gap, at, modelKey, streams }: typeof body extends fc.Arbitrary<infer B> ? B : never,
  model: string,
) {
  const members = others.map(([name, item]) => `${name}${gap}:${gap}${item}`);
  if (streams) members.push(`"stream"${gap}:true`);
  members.splice(at, 0, `${modelKey}:${gap}${model}`);
  return members.join(`${gap},${gap}`);
}

it('a body reaches the vendor byte for byte, except for the documented changes (1,000 generated bodies)', async () => {
  const bodies = fc.sample(body, { numRuns: 1_000, seed: 4 });
  const paths = ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1/embeddings'] as const;
  let compared = 0;
  for (const [at, generated] of bodies.entries()) {
    const path = paths[at % paths.length] ?? paths[0];
    const { gap, model, streams } = generated;
    vendor.clear();
    const answer = await post(proxy, path, `${gap}{${gap}${write(generated, model)}${gap}}${gap}`);
    await answer.arrayBuffer();
    const asked =
      streams && path === '/v1/chat/completions' ? '"stream_options":{"include_usage":true},' : '';
    const expected = `${gap}{${asked}${gap}${write(generated, '"echo"')}${gap}}${gap}`;
    expect(vendor.requests[0]?.body.toString()).toBe(expected);
    compared++;
  }
  expect(compared).toBe(1_000);
});
