import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  JsonCursor,
  OPEN_ARRAY,
  OPEN_OBJECT,
  type Span,
} from './jsonCursor.ts';

/** What to cut out of a JSON value: the members and items that lead to it, and which of them to cut. */
export interface CutShape {
  readonly members?: Readonly<Record<string, CutShape>>;
  readonly items?: CutShape;
  /** Whether an item of this shape, or a member, goes: by its bytes. */
  readonly isCut?: (value: Buffer) => boolean;
  /** It goes, too, if every item of an array in it went. */
  readonly isCutWhenEmptied?: boolean;
}

interface Walk {
  readonly cursor: JsonCursor;
  readonly cuts: Span[];
}

/** The spans to cut out of JSON that was scanned before, in order; what is left is JSON. */
export function cutsIn(bytes: Buffer, shape: CutShape): readonly Span[] {
  const cursor = new JsonCursor(bytes);
  const cuts: Span[] = [];
  cursor.space();
  walkValue({ cursor, cuts }, shape);
  return cuts;
}

/** Recursion is as deep as the shape. True if every item of an array in the value went, and so should the value. */
function walkValue(walk: Walk, shape: CutShape | undefined): boolean {
  const { cursor } = walk;
  if (shape?.members && cursor.peek() === OPEN_OBJECT) {
    const { members } = shape;
    const step = () => {
      const name = cursor.key();
      return Object.hasOwn(members, name) ? members[name] : undefined;
    };
    const { emptied } = walkContainer(walk, CLOSE_OBJECT, step);
    return emptied && shape.isCutWhenEmptied === true;
  }
  if (shape?.items && cursor.peek() === OPEN_ARRAY) {
    const { all } = walkContainer(walk, CLOSE_ARRAY, () => shape.items);
    return all;
  }
  cursor.skipValue();
  return false;
}

interface Walked {
  /** Every one of at least one went. */
  readonly all: boolean;
  /** Within one that stays, all went. */
  readonly emptied: boolean;
}

/** Walks the members or items of a container, and cuts some, each with one comma. */
function walkContainer({ cursor, cuts }: Walk, close: number, step: () => CutShape | undefined): Walked {
  cursor.at++;
  cursor.space();
  let count = 0;
  let kept = 0;
  let emptied = false;
  let previousEnd = cursor.at;
  while (cursor.peek() !== close) {
    const known = cuts.length;
    const start = cursor.at;
    const shape = step();
    const valueStart = cursor.at;
    const isEmptied = walkValue({ cursor, cuts }, shape);
    const end = cursor.at;
    const isCut = shape?.isCut?.(cursor.bytes.subarray(valueStart, end)) ?? false;
    cursor.space();
    const hasNext = cursor.peek() === COMMA;
    if (hasNext) {
      cursor.at++;
      cursor.space();
    }
    count++;
    if (isCut || (isEmptied && shape?.isCutWhenEmptied)) {
      cuts.length = known;
      cuts.push(kept > 0 ? { start: previousEnd, end } : { start, end: hasNext ? cursor.at : end });
    } else {
      kept++;
      emptied ||= isEmptied;
    }
    previousEnd = end;
  }
  cursor.at++;
  return { all: count > 0 && kept === 0, emptied };
}
