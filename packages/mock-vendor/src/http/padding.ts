import type { Behaviour } from '../shared/behaviour.ts';

const PIECE_BYTES = 64 * 1024;

/** What a kind of padding repeats, between an opening and a closing text: all are valid in a JSON object. */
const KINDS = {
  text: { open: '"padding":"', unit: 'x', close: '"' },
  objects: { open: '"padding":[', unit: '{},', close: '{}]' },
  lines: { open: '"padding":[', unit: '{},\n', close: '{}]' },
  spaces: { open: '', unit: ' ', close: '"padding":null' },
};

/** What vendors write first, and what says what a response costs. */
const FIRST = ['id', 'object', 'type'];
const USAGE = ['usage', 'status', 'model', 'service_tier', 'tool_usage'];

/**
 * The JSON of an object with the padding that the request asked for: before or after its usage and its id. `lineStart` begins each
 * further line.
 */
export function* padded(
  value: object,
  { paddingBytes, padding, usageAt, idAt }: Behaviour,
  lineStart = '',
): Generator<string> {
  if (paddingBytes === 0) {
    yield JSON.stringify(value);
    return;
  }
  const first = FIRST.filter((name) => idAt === 'start' || name !== 'id');
  const [before, after] = split(value, usageAt === 'start' ? [...first, ...USAGE] : first);
  const head = JSON.stringify(before).slice(0, -1);
  const { open, unit: line, close } = KINDS[padding];
  const unit = line.endsWith('\n') ? line + lineStart : line;
  yield `${head}${head === '{' ? '' : ','}${open}`;
  const piece = unit.repeat(Math.ceil(PIECE_BYTES / unit.length));
  for (let left = paddingBytes; left > 0; left -= piece.length) {
    yield left >= piece.length ? piece : unit.repeat(Math.ceil(left / unit.length));
  }
  const tail = JSON.stringify(after).slice(1);
  yield `${close}${tail === '}' ? '' : ','}${tail}`;
}

/** The fields with these names, and the others. */
function split(value: object, names: readonly string[]): [object, object] {
  const fields = Object.entries(value);
  return [
    Object.fromEntries(fields.filter(([name]) => names.includes(name))),
    Object.fromEntries(fields.filter(([name]) => !names.includes(name))),
  ];
}
