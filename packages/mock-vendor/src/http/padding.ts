import type { Behaviour } from '../shared/behaviour.ts';

const PIECE_BYTES = 64 * 1024;

/** What a kind of padding repeats, between an opening and a closing text: all are valid in a JSON object. */
const KINDS = {
  text: { open: '"padding":"', unit: 'x', close: '"' },
  objects: { open: '"padding":[', unit: '{},', close: '{}]' },
  spaces: { open: '', unit: ' ', close: '"padding":null' },
};

/** The JSON of an object with the padding that the request asked for: before or after its usage. */
export function* padded(value: object, { paddingBytes, padding, usageAt }: Behaviour): Generator<string> {
  if (paddingBytes === 0) {
    yield JSON.stringify(value);
    return;
  }
  const [before, after] = usageAt === 'start' ? split(value) : [{}, value];
  const head = JSON.stringify(before).slice(0, -1);
  const { open, unit, close } = KINDS[padding];
  yield `${head}${head === '{' ? '' : ','}${open}`;
  const piece = unit.repeat(Math.ceil(PIECE_BYTES / unit.length));
  for (let left = paddingBytes; left > 0; left -= piece.length) {
    yield left >= piece.length ? piece : unit.repeat(Math.ceil(left / unit.length));
  }
  const tail = JSON.stringify(after).slice(1);
  yield `${close}${tail === '}' ? '' : ','}${tail}`;
}

/** The fields that report usage, and the others. */
function split(value: object): [object, object] {
  const isUsage = (name: string) =>
    ['usage', 'type', 'status', 'model', 'service_tier', 'tool_usage'].includes(name);
  const fields = Object.entries(value);
  return [
    Object.fromEntries(fields.filter(([name]) => isUsage(name))),
    Object.fromEntries(fields.filter(([name]) => !isUsage(name))),
  ];
}
