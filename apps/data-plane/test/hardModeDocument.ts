import { GEMINI_OPERATIONS, OPERATIONS, type Operation } from '../src/formats/operation.ts';
import type { Field, Fields } from '../src/formats/requestFields/field.ts';

const INTRODUCTION = `# What a hard budget accepts

Look up here which fields a request may have under a policy with \`budget_mode: hard\`, and what each may cost
([budgets](budgets.md#the-two-modes) says what is reserved). Any other field gets 400 \`not_allowed_in_hard_mode\`, unless the
policy's \`hard_allow_fields\` lists it.

This page is generated from the tables that the proxy checks requests against.

| cost      | meaning                                                                   |
| --------- | ------------------------------------------------------------------------- |
| free      | no more than its bytes, each of which is reserved as a token of the input |
| bounded   | no more than another part of the request says                             |
| priced    | the answer reports it; the most that the request allows is reserved       |
| model     | names a model, which \`allowed_models\` must allow in every budget mode     |
| stored    | names an object that the vendor stores: refused                           |
| unbounded | nothing in the request bounds it: refused                                 |

Gemini's fields may also be written in the other spelling that Google's APIs take: \`max_output_tokens\`.

A field whose value is \`null\` is the same as an absent one, and so is an empty list of things of which each would cost:
\`models\`, \`fallbacks\`, \`plugins\`, \`mcp_servers\`, \`guardrails\`, \`images\`. Another empty list, object or text is not:
\`{}\` switches some tools on, with their defaults. A tool marked _removed_ is cut out of the
request; \`x-svc-dropped\` names it.
`;

/** The documentation of the tables of request fields, in Markdown. */
export function hardModeDocument(): string {
  const all = [...OPERATIONS, ...GEMINI_OPERATIONS.filter(({ isBilled }) => isBilled)];
  const sections = all.map((operation) => {
    const { requestFields } = operation;
    const title = `## \`POST ${pathOf(operation)}\``;
    const same = all.find((other) => other.requestFields === requestFields) ?? operation;
    if (same !== operation) return `${title}\n\nThe fields of \`${pathOf(same)}\`.\n`;
    return `${title}\n\n${new Section().render(requestFields)}\n`;
  });
  return [INTRODUCTION, ...sections].join('\n');
}

function pathOf({ dialect, path }: Operation): string {
  return `${dialect === 'gemini' ? '/v1beta' : '/v1'}${path}`;
}

type Row = readonly [path: string, cost: string, text: string];

/** The rows of one operation. A shape that several fields share is described once. */
class Section {
  readonly #rows: Row[] = [];
  readonly #known = new Map<unknown, string>();

  render(fields: Fields): string {
    const free = Object.keys(fields).filter((name) => isPlain(fields[name]));
    for (const [name, field] of sorted(fields)) if (!isPlain(field)) this.#field(name, field);
    const header: Row = ['field', 'cost', 'what bounds it, or what it may hold'];
    const plain = free.length > 0 ? `Free, with any value: ${names(free)}.\n\n` : '';
    return `${plain}${table([header, ...this.#rows])}`;
  }

  #field(path: string, field: Field): void {
    const { cost, note = '', value } = field;
    if (cost === 'unbounded' || cost === 'stored') {
      this.#rows.push([path, cost, value.kind === 'only' ? `${note}; \`false\` passes` : note]);
      return;
    }
    if (field.tool && !field.tool.uses) {
      this.#rows.push([path, cost, '_removed_: nothing bounds its uses']);
      return;
    }
    switch (value.kind) {
      case 'any':
      case 'map':
        this.#rows.push([path, cost, note]);
        return;
      case 'only':
        this.#rows.push([path, cost, value.values.map((one) => `\`${JSON.stringify(one)}\``).join(', ')]);
        return;
      case 'count':
        this.#rows.push([path, cost, `a whole number in digits; ${note}`]);
        return;
      case 'list':
        this.#field(`${path}[]`, value.item);
        return;
      case 'kinds':
        this.#kinds(path, field);
        return;
      case 'object':
        this.#object(path, field, note);
        return;
      case 'variants':
        this.#variants(path, field);
    }
  }

  #kinds(path: string, { value }: Field): void {
    if (value.kind !== 'kinds') return;
    if (value.scalar) this.#rows.push([path, value.scalar.cost, value.scalar.note ?? 'text']);
    for (const inner of [value.list, value.object]) if (inner) this.#field(path, inner);
  }

  #object(path: string, { cost, value }: Field, note: string): void {
    if (value.kind !== 'object') return;
    const known = this.#known.get(value);
    if (known !== undefined) {
      this.#rows.push([path, cost, `as \`${known}\``]);
      return;
    }
    this.#known.set(value, path);
    const free = Object.keys(value.fields).filter((name) => isPlain(value.fields[name]));
    const requires = value.requires === undefined ? '' : `; requires \`${value.requires}\``;
    const described = note === '' ? '' : `${note}; `;
    this.#rows.push([
      path,
      cost,
      `${described}${free.length > 0 ? `free: ${names(free)}` : 'an object'}${requires}`,
    ]);
    for (const [name, inner] of sorted(value.fields)) {
      if (!isPlain(inner)) this.#field(`${path}.${name}`, inner);
    }
  }

  #variants(path: string, { value }: Field): void {
    if (value.kind !== 'variants') return;
    const known = this.#known.get(value.variants);
    if (known !== undefined) {
      this.#rows.push([path, 'free', `as \`${known}\``]);
      return;
    }
    this.#known.set(value.variants, path);
    for (const [tag, variant] of Object.entries(value.variants)) {
      const at = `${path} ${tag}`;
      const { cost, note = '', tool } = variant;
      if (tool && !tool.uses) this.#rows.push([at, cost, '_removed_: nothing bounds its uses']);
      else if (isPlain(variant)) this.#rows.push([at, cost, 'any']);
      else if (cost === 'unbounded' || cost === 'stored' || variant.value.kind === 'any') {
        this.#rows.push([at, cost, note]);
      } else if (variant.value.kind === 'object') this.#object(at, variant, note);
      else this.#field(at, variant);
    }
    if (value.untagged) this.#field(`${path} without ${value.tag}`, value.untagged);
  }
}

/** Free, whatever it holds. */
function isPlain(field: Field | undefined): boolean {
  return field?.cost === 'free' && field.value.kind === 'any' && field.sameAs === undefined;
}

function sorted(fields: Fields): [string, Field][] {
  return Object.entries(fields)
    .filter(([, { sameAs }]) => sameAs === undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

function names(list: readonly string[]): string {
  return list
    .toSorted()
    .map((name) => `\`${name}\``)
    .join(', ');
}

/** A table with aligned columns, as the formatter wants it. */
function table([header, ...rows]: readonly Row[]): string {
  const shown = [
    header ?? [],
    ...rows.map(([path, cost, text]) => [code(path), cost, text.replaceAll('|', '\\|')]),
  ];
  const widths = [0, 1, 2].map((column) => Math.max(...shown.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  const rule = widths.map((width) => '-'.repeat(width));
  const [first = [], ...others] = shown;
  return [first, rule, ...others].map(line).join('\n');
}

/** `messages[].content[]` of the type `text`, say. */
function code(path: string): string {
  return path
    .split(' ')
    .map((part) => (part === 'without' ? part : `\`${part}\``))
    .join(' ');
}
