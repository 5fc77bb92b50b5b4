import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  type JsonCursor,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  type Span,
} from '@weighbridge/dialects';
import { sizedTool } from '@weighbridge/domain';
import { MAX_MEMBERS, mostItems, parseSmall, tooManyItems, tooManyMembers } from './fieldReader.ts';
import { cursorOver } from './longValues.ts';
import {
  type Field,
  type Fields,
  type ListValue,
  type Literal,
  mayBeList,
  type ObjectValue,
  type ServerTool,
  type VariantsValue,
} from './requestFields/field.ts';
import type { RequestFindings, Violation, WalkRules } from './requestFindings.ts';

/** A request with more of them is an attack. */
const MAX_REMOVED_TOOLS = 128;
const MAX_GIVEN_BYTES = 60;
const MAX_TAG_BYTES = 128;
const COUNT = /^[1-9][0-9]{0,15}$/;
const MAX_USES = 1_000_000;
const NULL = 0x6e;
/** What a container without a size has, as vendors spell it. */
const SMALLEST = '1g';

/** What is read of a tool beside its type. */
const TOOL_MEMBERS: ReadonlySet<string> = new Set([
  'name',
  'max_uses',
  'container',
  'container_id',
  'memory_limit',
]);
type Found = ReadonlyMap<string, Span>;

/**
 * Checks the body of a request against the table of its operation. It goes over the bytes without building a tree: memory
 * depends on the depth of the table alone. Each object that does not begin with its tag is looked through for it first, so
 * a byte is read once more per level of such objects, of which a table has at most six.
 *
 * The bytes must be a JSON object.
 */
export function walkRequest(bytes: Buffer, fields: Fields, rules: WalkRules): RequestFindings {
  const walker = new RequestWalker(bytes, rules);
  walker.walk(fields);
  return walker.findings;
}

/** The spans to cut out of a list or an object, with commas, to remove some of its parts. */
class Cuts {
  readonly spans: Span[] = [];
  #kept = 0;
  #previousEnd: number;

  /** `start`: of the first part. */
  constructor(start: number) {
    this.#previousEnd = start;
  }

  /** All of its parts are gone. */
  get isEmptied(): boolean {
    return this.#kept === 0 && this.spans.length > 0;
  }

  /** `next`: where the part after it begins. */
  add({ start, end }: Span, isRemoved: boolean, next: number): void {
    if (!isRemoved) this.#kept++;
    else if (this.#kept > 0) this.spans.push({ start: this.#previousEnd, end });
    else this.spans.push({ start, end: next });
    this.#previousEnd = end;
  }
}

class RequestWalker {
  readonly findings: RequestFindings = {
    serverTools: new Set(),
    freeTools: new Set(),
    toolUses: {},
    toolPasses: 0,
    usesToolCalls: false,
    removedTools: [],
    cuts: [],
    emptied: [],
    fillsContext: false,
    addedTokens: 0,
    hasTools: false,
  };
  readonly #cursor: JsonCursor;
  readonly #rules: WalkRules;
  readonly #path: (string | number)[] = [];
  /** The names that were seen, by depth: one set serves all objects of a depth. */
  readonly #seen: Set<string>[] = [];

  constructor(bytes: Buffer, rules: WalkRules) {
    this.#cursor = cursorOver(bytes);
    this.#rules = rules;
  }

  walk(fields: Fields): void {
    this.#cursor.space();
    this.#object({ kind: 'object', fields });
  }

  /** Checks one value and moves past it. True if it is a tool to be removed from its list. */
  #value(field: Field, isItem = false): boolean {
    const { cost, value } = field;
    // `null` is the same as an absent field.
    if (value.kind === 'any' && cost === 'free') this.#cursor.skipValue();
    else if (this.#startsWith('null')) this.#cursor.skipValue();
    else if (cost === 'unbounded' || cost === 'stored') this.#nothing(field);
    else {
      if (field.fillsContext) this.findings.fillsContext = true;
      if (field.addedTokens) this.findings.addedTokens += field.addedTokens;
      return this.#bounded(field, isItem);
    }
    return false;
  }

  #bounded(field: Field, isItem: boolean): boolean {
    const { value } = field;
    switch (value.kind) {
      case 'any':
      case 'map':
        this.#cursor.skipValue();
        return false;
      case 'object':
        return this.#object(value, field, isItem);
      case 'variants':
        return this.#variants(field, value, isItem);
      case 'list':
        this.#list(field, value);
        return false;
      case 'kinds': {
        const byte = this.#cursor.peek();
        const kind = byte === OPEN_OBJECT ? 'object' : byte === OPEN_ARRAY ? 'list' : 'scalar';
        const inner = value[kind];
        if (inner) return this.#value(inner, isItem);
        this.#refuseValue('value', field);
        return false;
      }
      case 'only':
      case 'count':
        this.#literal(field);
        return false;
    }
  }

  /** A value that costs what nothing bounds. An empty list asks for nothing, but `{}` switches on a search with its defaults. */
  #nothing(field: Field): void {
    const { start, end } = this.#skipped();
    const { value } = field;
    if (mayBeList(field) && this.#isEmptyList(start)) return;
    if (value.kind === 'only' && this.#isOneOf(value.values, start, end)) return;
    this.#refuse('cost', field, start, end, { isOfValue: value.kind === 'only' });
  }

  #isEmptyList(start: number): boolean {
    const cursor = this.#cursor;
    if (cursor.bytes[start] !== OPEN_ARRAY) return false;
    const { at } = cursor;
    cursor.at = start + 1;
    cursor.space();
    const isEmpty = cursor.peek() === CLOSE_ARRAY;
    cursor.at = at;
    return isEmpty;
  }

  #isOneOf(values: readonly Literal[], start: number, end: number): boolean {
    const given = parseSmall(this.#cursor.bytes, { start, end }, MAX_TAG_BYTES);
    return values.some((accepted) => accepted === given);
  }

  #literal(field: Field): void {
    const { value } = field;
    const { start, end } = this.#skipped();
    if (value.kind === 'count') {
      const text = end - start <= MAX_TAG_BYTES ? this.#cursor.bytes.toString('latin1', start, end) : '';
      // A vendor may read a number in another form differently.
      if (COUNT.test(text) && Number(text) <= value.most) return;
    } else if (value.kind === 'only' && this.#isOneOf(value.values, start, end)) return;
    this.#refuse('value', field, start, end);
  }

  /** True if it is an item of which nothing is left. */
  #object(value: ObjectValue<Fields>, field?: Field, isItem = false): boolean {
    const cursor = this.#cursor;
    if (cursor.peek() !== OPEN_OBJECT) {
      this.#refuseValue('value', field);
      return false;
    }
    const seen = this.#names();
    const opened = cursor.at;
    cursor.at++;
    cursor.space();
    let hasRequired = value.requires === undefined;
    const cuts = new Cuts(cursor.at);
    while (cursor.peek() !== CLOSE_OBJECT) {
      const start = cursor.at;
      const name = cursor.key();
      this.#path.push(name);
      if (name === value.requires) hasRequired = cursor.peek() === QUOTE || cursor.peek() === OPEN_OBJECT;
      const isRemoved = this.#member(value.fields, name, seen);
      this.#path.pop();
      const end = cursor.at;
      const hasNext = this.#next();
      cuts.add({ start, end }, isRemoved, hasNext ? cursor.at : end);
    }
    cursor.at++;
    if (isItem && cuts.isEmptied) return true;
    this.findings.cuts.push(...cuts.spans);
    if (hasRequired || value.requires === undefined) return false;
    this.#path.push(value.requires);
    this.#refuse('missing', field, opened, cursor.at);
    this.#path.pop();
    return false;
  }

  /** True if it is a tool to be removed from its object. */
  #member(fields: Fields, name: string, seen: Set<string>): boolean {
    const { at } = this.#cursor;
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    const meant = field?.sameAs ?? name;
    // Vendors differ in which of two they read.
    if (seen.has(meant)) this.#refuse('duplicate', undefined, at, at);
    if (seen.size < MAX_MEMBERS) seen.add(meant);
    else if (this.#rules.isBounded) throw tooManyMembers(this.#pathText(false));
    if (field?.tool) return this.#memberTool(field, field.tool, meant);
    if (field) {
      if (name === 'tools' || name === 'functions') this.findings.hasTools = true;
      this.#value(field);
      return false;
    }
    const { start, end } = this.#skipped();
    this.#refuse('unlisted', undefined, start, end, { siblings: fields });
    return false;
  }

  /** A tool that the vendor runs, as a member of an object that names tools. True if it is to be removed. */
  #memberTool(field: Field, { name, uses }: ServerTool, member: string): boolean {
    const { findings } = this;
    const isNull = this.#startsWith('null');
    const { start, end } = this.#skipped();
    if (isNull) return false;
    findings.serverTools.add(name);
    const isAllowed = this.#rules.allows(this.#pathText(true), member);
    if (isAllowed || findings.removedTools.length >= MAX_REMOVED_TOOLS) {
      this.#refuse('cost', field, start, end);
      return false;
    }
    findings.removedTools.push({ path: this.#pathText(false), tool: name, names: [member], bound: uses });
    return true;
  }

  #list(field: Field, list: ListValue): void {
    const cursor = this.#cursor;
    if (cursor.peek() !== OPEN_ARRAY) {
      this.#refuseValue('value', field);
      return;
    }
    cursor.at++;
    cursor.space();
    const at = this.#path.length;
    let index = 0;
    const cuts = new Cuts(cursor.at);
    while (cursor.peek() !== CLOSE_ARRAY) {
      const most = mostItems(list, cursor.peek());
      if (index >= most && this.#rules.isBounded) throw tooManyItems(this.#pathText(false), most);
      this.#path.push(index++);
      const start = cursor.at;
      const isRemoved = this.#value(list.item, true);
      this.#path.length = at;
      const end = cursor.at;
      const hasNext = this.#next();
      cuts.add({ start, end }, isRemoved, hasNext ? cursor.at : end);
    }
    cursor.at++;
    this.findings.cuts.push(...cuts.spans);
    if (cuts.isEmptied) this.findings.emptied.push(this.#pathText(false));
  }

  #variants(field: Field, value: VariantsValue<Fields>, isItem: boolean): boolean {
    const cursor = this.#cursor;
    if (cursor.peek() !== OPEN_OBJECT) {
      this.#refuseValue('value', field);
      return false;
    }
    const tag = this.#find(value.tag);
    const given = tag && this.#text(tag);
    const isUntagged = !tag || cursor.bytes.toString('latin1', tag.start, tag.start + 4) === 'null';
    const variant = isUntagged
      ? value.untagged
      : given !== undefined && Object.hasOwn(value.variants, given)
        ? value.variants[given]
        : undefined;
    if (variant?.tool) return this.#tool(variant, variant.tool, given ?? '', isItem);
    if (variant && variant.cost !== 'unbounded' && variant.cost !== 'stored') return this.#value(variant);
    const { start, end } = this.#skipped();
    this.#path.push(value.tag);
    if (tag)
      this.#refuse(variant ? 'cost' : 'value', variant ?? field, tag.start, tag.end, { isOfValue: true });
    else this.#refuse('missing', field, start, end);
    this.#path.pop();
    return false;
  }

  /** Counts the uses of a tool that the vendor runs. True if nothing bounds them: it is to be removed. */
  #tool(field: Field, tool: ServerTool, type: string, isItem: boolean): boolean {
    const { findings } = this;
    const { uses } = tool;
    const members = this.#findAll(TOOL_MEMBERS);
    const name = tool.sizedBy ? sizedTool(tool.name, this.#sizeOf(tool.sizedBy, field, members)) : tool.name;
    findings.serverTools.add(name);
    if (tool.frees !== undefined) findings.freeTools.add(tool.frees);
    const most =
      uses === 'max_uses' ? this.#countAt(members.get('max_uses')) : uses && this.#rules.maxToolCalls;
    const named = members.get('name');
    const names = [type, (named && this.#text(named)) ?? type];
    const start = this.#cursor.at;
    if (most !== undefined) {
      findings.toolUses[name] = Math.min((findings.toolUses[name] ?? 0) + most, MAX_USES);
      if (uses === 'max_uses') findings.toolPasses += most;
      else findings.usesToolCalls = true;
      this.#bounded(field, false);
      return false;
    }
    this.#cursor.skipValue();
    if (isItem && findings.removedTools.length < MAX_REMOVED_TOOLS && !this.#isAllowed(type)) {
      findings.removedTools.push({ path: this.#pathText(false), tool: name, names, bound: uses });
      return true;
    }
    this.#path.push('type');
    this.#refuse('cost', field, start, this.#cursor.at, { given: type, isOfValue: true });
    this.#path.pop();
    return false;
  }

  /** The size of the container that a tool with these members asks for; undefined for what has none, or may be any. */
  #sizeOf(by: ServerTool['sizedBy'], { value }: Field, members: Found): unknown {
    const cursor = this.#cursor;
    const opened = cursor.at;
    let fields = value.kind === 'object' ? value.fields : {};
    let found = members;
    if (by === 'container') {
      const container = members.get('container');
      if (!container || cursor.bytes[container.start] === NULL) return SMALLEST;
      if (cursor.bytes[container.start] !== OPEN_OBJECT) return undefined;
      const inner = fields.container?.value;
      fields =
        inner?.kind === 'kinds' && inner.object?.value.kind === 'object' ? inner.object.value.fields : {};
      cursor.at = container.start;
      found = this.#findAll(TOOL_MEMBERS);
    }
    // A container that exists already; or a field that may change the price.
    const isKnown = !found.has('container_id') && this.#hasOnly(fields);
    const size = found.get('memory_limit');
    cursor.at = opened;
    if (!isKnown) return undefined;
    return size && cursor.bytes[size.start] !== NULL ? this.#text(size) : SMALLEST;
  }

  /** Whether the object at the cursor, which does not move, has only these fields, each once. */
  #hasOnly(fields: Fields): boolean {
    const cursor = this.#cursor;
    const opened = cursor.at;
    const seen = new Set<string>();
    let isKnown = true;
    cursor.at++;
    cursor.space();
    while (isKnown && cursor.peek() !== CLOSE_OBJECT) {
      const name = cursor.key();
      isKnown = Object.hasOwn(fields, name) && !seen.has(name);
      seen.add(name);
      cursor.skipValue();
      this.#next();
    }
    cursor.at = opened;
    return isKnown;
  }

  /** True if the policy allows tools of this type: then it is neither removed nor refused. */
  #isAllowed(type: string): boolean {
    return this.#rules.allows(`${this.#pathText(true)}.type`, type);
  }

  /** A tag that comes later than any client sends it may not hide what the object is, before the request is sent. */
  #assertSearched(count: number): void {
    if (count < MAX_MEMBERS) return;
    const { isBounded, findsTools } = this.#rules;
    if (isBounded || findsTools) throw tooManyMembers(this.#pathText(false));
  }

  /** The value of a member of the object at the cursor, which does not move. */
  #find(name: string): Span | undefined {
    const cursor = this.#cursor;
    const opened = cursor.at;
    const names = [name];
    let found: Span | undefined;
    cursor.at++;
    cursor.space();
    for (let count = 0; !found && cursor.peek() !== CLOSE_OBJECT; count++) {
      this.#assertSearched(count);
      const isMeant = cursor.isKeyOf(names);
      const span = this.#skipped();
      if (isMeant) found = span;
      this.#next();
    }
    cursor.at = opened;
    return found;
  }

  /** The values of some members of the object at the cursor, which does not move: of each name the first. */
  #findAll(names: ReadonlySet<string>): Found {
    const cursor = this.#cursor;
    const opened = cursor.at;
    const found = new Map<string, Span>();
    cursor.at++;
    cursor.space();
    for (let count = 0; cursor.peek() !== CLOSE_OBJECT; count++) {
      this.#assertSearched(count);
      const name = cursor.key();
      const span = this.#skipped();
      if (names.has(name) && !found.has(name)) found.set(name, span);
      this.#next();
    }
    cursor.at = opened;
    return found;
  }

  #countAt(span: Span | undefined): number | undefined {
    if (!span || span.end - span.start > 16) return undefined;
    const text = this.#cursor.bytes.toString('latin1', span.start, span.end);
    return COUNT.test(text) && Number(text) <= MAX_USES ? Number(text) : undefined;
  }

  /** A short string. */
  #text({ start, end }: Span): string | undefined {
    if (this.#cursor.bytes[start] !== QUOTE) return undefined;
    return parseSmall(this.#cursor.bytes, { start, end }, MAX_TAG_BYTES) as string | undefined;
  }

  #skipped(): Span {
    const start = this.#cursor.at;
    this.#cursor.skipValue();
    return { start, end: this.#cursor.at };
  }

  /** Moves to the next member or item; false if there is none. */
  #next(): boolean {
    this.#cursor.space();
    if (this.#cursor.peek() !== COMMA) return false;
    this.#cursor.at++;
    this.#cursor.space();
    return true;
  }

  #startsWith(word: string): boolean {
    const { bytes, at } = this.#cursor;
    return bytes[at] === word.charCodeAt(0) && bytes.toString('latin1', at, at + word.length) === word;
  }

  #names(): Set<string> {
    const depth = this.#path.length;
    const names = this.#seen[depth] ?? new Set<string>();
    names.clear();
    this.#seen[depth] = names;
    return names;
  }

  #refuseValue(problem: Violation['problem'], field: Field | undefined): void {
    const { start, end } = this.#skipped();
    this.#refuse(problem, field, start, end);
  }

  #refuse(
    problem: Violation['problem'],
    field: Field | undefined,
    start: number,
    end: number,
    known: Partial<Pick<Violation, 'given' | 'isOfValue' | 'siblings'>> = {},
  ): void {
    if (!this.#rules.refuse) return;
    this.#rules.refuse({
      path: this.#pathText(false),
      pattern: this.#pathText(true),
      problem,
      field,
      given: this.#cursor.bytes.toString('utf8', start, Math.min(end, start + MAX_GIVEN_BYTES)),
      isOfValue: problem === 'value',
      ...known,
    });
  }

  #pathText(isPattern: boolean): string {
    let text = '';
    for (const step of this.#path) {
      if (typeof step === 'number') text += isPattern ? '[]' : `[${step}]`;
      else text += `${text ? '.' : ''}${step.slice(0, 64)}`;
    }
    return text;
  }
}
