import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { memberCuts } from './memberCuts.ts';
import { findNamedModels } from './namedModels.ts';
import { MESSAGES, OPERATIONS, type Operation } from './operation.ts';
import { RequestBody } from './requestBody.ts';
import { type Field, type Fields, mayBeList } from './requestFields/field.ts';
import type { RequestFindings, Violation } from './requestFindings.ts';
import { walkRequest } from './requestWalker.ts';

interface Walked {
  readonly violations: Violation[];
  readonly findings: RequestFindings;
}

function walk(text: string, fields: Fields): Walked {
  const violations: Violation[] = [];
  const findings = walkRequest(Buffer.from(text), fields, {
    refuse: (violation) => violations.push(violation),
    allows: () => false,
    isBounded: true,
    maxToolCalls: undefined,
  });
  return { violations, findings };
}

/** What the walker should say of a parsed body. */
class Reference {
  readonly found: string[] = [];
  readonly removed: string[] = [];
  readonly models: string[] = [];

  object(value: unknown, fields: Fields, requires: string | undefined, path: string): void {
    if (!isObject(value)) {
      this.found.push(`${path} value`);
      return;
    }
    for (const [name, inner] of Object.entries(value)) {
      const at = path ? `${path}.${name}` : name;
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
      if (field) this.value(inner, field, at, false);
      else this.found.push(`${at} unlisted`);
    }
    if (requires === undefined) return;
    const given = value[requires];
    if (typeof given !== 'string' && !isObject(given)) this.found.push(`${path}.${requires} missing`);
  }

  value(given: unknown, field: Field, path: string, isItem: boolean): void {
    const { cost, value } = field;
    if (given === null) return;
    if (cost === 'unbounded' || cost === 'stored') {
      const isOff = value.kind === 'only' && value.values.includes(given as string);
      const isNone = mayBeList(field) && Array.isArray(given) && given.length === 0;
      if (!isOff && !isNone) this.found.push(`${path} cost`);
      return;
    }
    if (value.kind === 'object') this.object(given, value.fields, value.requires, path);
    else if (value.kind === 'only') this.#literal(value.values.includes(given as string), path);
    else if (value.kind === 'count') {
      this.#literal(Number.isSafeInteger(given) && Number(given) > 0 && Number(given) <= value.most, path);
    } else if (value.kind === 'list') {
      if (!Array.isArray(given)) this.found.push(`${path} value`);
      else for (const [at, one] of given.entries()) this.value(one, value.item, `${path}[${at}]`, true);
    } else if (value.kind === 'kinds') {
      const inner = value[Array.isArray(given) ? 'list' : isObject(given) ? 'object' : 'scalar'];
      if (inner) this.value(given, inner, path, isItem);
      else this.found.push(`${path} value`);
    } else if (value.kind === 'variants') this.#variant(given, field, path, isItem);
  }

  #variant(given: unknown, { value }: Field, path: string, isItem: boolean): void {
    if (value.kind !== 'variants') return;
    if (!isObject(given)) {
      this.found.push(`${path} value`);
      return;
    }
    const tag = given[value.tag];
    const isUntagged = tag === undefined || tag === null;
    const known = typeof tag === 'string' && Object.hasOwn(value.variants, tag);
    const variant = isUntagged ? value.untagged : known ? value.variants[tag] : undefined;
    const at = `${path}.${value.tag}`;
    if (!variant) this.found.push(`${at} ${isUntagged && tag === undefined ? 'missing' : 'value'}`);
    else if (variant.tool) this.#tool(given, variant, path, isItem);
    else if (variant.cost === 'unbounded' || variant.cost === 'stored') this.found.push(`${at} cost`);
    else this.value(given, variant, path, isItem);
  }

  #tool(given: Record<string, unknown>, variant: Field, path: string, isItem: boolean): void {
    const uses = given.max_uses;
    const isCounted = Number.isSafeInteger(uses) && Number(uses) > 0 && Number(uses) <= 1_000_000;
    if (variant.tool?.uses === 'max_uses' && isCounted) {
      if (variant.value.kind === 'object') this.object(given, variant.value.fields, undefined, path);
    } else if (isItem) this.removed.push(path);
    else this.found.push(`${path}.type cost`);
  }

  #literal(isRight: boolean, path: string): void {
    if (!isRight) this.found.push(`${path} value`);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value that a field may have, or one that it may not. */
function arbitraryOf(field: Field): fc.Arbitrary<unknown> {
  const { value } = field;
  const others = fc.oneof(
    fc.constantFrom(null, false, '', 'x', 1, -1, 2.5, [], {}),
    fc.jsonValue({ maxDepth: 2 }),
  );
  const mix = (right: fc.Arbitrary<unknown>) =>
    fc.oneof({ weight: 8, arbitrary: right }, { weight: 1, arbitrary: others });
  switch (value.kind) {
    case 'any':
    case 'map':
      return others;
    case 'only':
      return mix(fc.constantFrom(...value.values));
    case 'count':
      return mix(fc.integer({ min: 1, max: 200 }));
    case 'list':
      return mix(fc.array(arbitraryOf(value.item), { maxLength: 3 }));
    case 'object':
      return mix(objectOf(value.fields));
    case 'variants':
      return mix(
        fc.constantFrom(...Object.entries(value.variants)).chain(([tag, variant]) => {
          const inner = variant.value.kind === 'object' ? objectOf(variant.value.fields) : fc.constant({});
          return fc.tuple(inner, fc.boolean()).map(([fields, isLast]) => {
            const { [value.tag]: _, ...rest }: Record<string, unknown> = fields;
            return isLast ? { ...rest, [value.tag]: tag } : { [value.tag]: tag, ...rest };
          });
        }),
      );
    case 'kinds':
      return mix(
        fc.oneof(
          ...[value.scalar, value.list, value.object].flatMap((one) => (one ? [arbitraryOf(one)] : [])),
        ),
      );
  }
}

function objectOf(fields: Fields): fc.Arbitrary<Record<string, unknown>> {
  const names = fc.constantFrom(...Object.keys(fields), 'unknown', 'Model', '__proto__', 'constructor');
  const member = names.chain((name) => {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    return fc.tuple(fc.constant(name), field ? arbitraryOf(field) : fc.jsonValue({ maxDepth: 1 }));
  });
  return fc.uniqueArray(member, { maxLength: 4, selector: ([name]) => name }).map(Object.fromEntries);
}

/** JSON of the value, with each name and string escaped in part. */
function escaped(value: unknown, indent: number | undefined): string {
  return JSON.stringify(value, null, indent).replaceAll(/"(\w)/g, (_, letter: string) => {
    return `"\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

const reported = ({ violations }: Walked) =>
  violations.map(({ path, problem }) => `${path} ${problem}`).sort();

describe.each(OPERATIONS)('the body of $path', ({ requestFields }) => {
  const bodies = objectOf(requestFields);

  it('is read as a parsed one is', () => {
    fc.assert(
      fc.property(bodies, fc.boolean(), fc.constantFrom(undefined, 1), (body, isEscaped, indent) => {
        const text = isEscaped ? escaped(body, indent) : JSON.stringify(body, null, indent);
        const walked = walk(text, requestFields);
        const reference = new Reference();
        reference.object(JSON.parse(text), requestFields, undefined, '');
        expect(reported(walked)).toEqual(reference.found.sort());
        expect(walked.findings.removedTools.map(({ path }) => path)).toEqual(reference.removed);
      }),
      { numRuns: 400 },
    );
  });

  it('has the rest of its items once tools are cut out of it', () => {
    fc.assert(
      fc.property(bodies, fc.constantFrom(undefined, 1), (body, indent) => {
        const text = JSON.stringify(body, null, indent);
        const { cuts, removedTools } = walk(text, requestFields).findings;
        const edits = cuts.map((span) => ({ span, text: '' }));
        const left = new RequestBody([Buffer.from(text)]).withEdits(edits).toBuffer().toString();
        const expected = structuredClone(JSON.parse(text));
        for (const { path } of removedTools.toReversed()) removeAt(expected, path);
        expect(JSON.parse(left)).toEqual(expected);
      }),
      { numRuns: 400 },
    );
  });

  it('loses the fields that are cut, and no other', () => {
    const names = Object.keys(requestFields);
    fc.assert(
      fc.property(bodies, fc.subarray(names), fc.constantFrom(undefined, 1), (body, removed, indent) => {
        const text = JSON.stringify(body, null, indent);
        const edits = memberCuts(Buffer.from(text), new Set(removed)).map((span) => ({ span, text: '' }));
        const left = new RequestBody([Buffer.from(text)]).withEdits(edits).toBuffer().toString();
        const kept = Object.entries(JSON.parse(text)).filter(([name]) => !removed.includes(name));
        expect(Object.entries(JSON.parse(left))).toEqual(kept);
      }),
      { numRuns: 200 },
    );
  });
});

/** Removes the item of a path such as `tools[2]` or `input[1].tools[0]`. */
function removeAt(body: unknown, path: string): void {
  const steps = path.split(/[.[\]]+/).filter(Boolean);
  const index = Number(steps.pop());
  const list = steps.reduce((value, step) => (value as Record<string, unknown>)[step], body);
  (list as unknown[]).splice(index, 1);
}

it('a tool whose type comes after 1,024 members is refused before its request is sent, and found after that', () => {
  const others = Array.from({ length: 1_024 }, (_, at) => `"k${at}":0,`);
  const bytes = Buffer.from(`{"tools":[{${others.join('')}"type":"web_search"}]}`);
  const { requestFields } = OPERATIONS.find(({ path }) => path === '/responses') as Operation;
  const walk = (findsTools: boolean) =>
    walkRequest(bytes, requestFields, {
      allows: () => false,
      refuse: undefined,
      isBounded: false,
      maxToolCalls: undefined,
      findsTools,
    });
  expect(() => walk(true)).toThrow('tools[0] has more than 1024 members');
  expect([...walk(false).serverTools]).toEqual(['web_search']);
});

describe('names of models', () => {
  function modelsOf(path: string, text: string): Record<string, string> {
    const operation = OPERATIONS.find((one) => one.path === path) ?? MESSAGES;
    const found: Record<string, string> = {};
    findNamedModels(Buffer.from(text), operation.requestFields, (at, name) => {
      found[at] = name;
    });
    return found;
  }

  it('are found wherever the table has one', () => {
    expect(modelsOf('/messages', '{"model":"a","fallbacks":[{"model":"b"},{"m\\u006fdel":"c"}]}')).toEqual({
      'fallbacks[0].model': 'b',
      'fallbacks[1].model': 'c',
    });
    expect(modelsOf('/messages', '{"fallbacks":"default"}')).toEqual({ fallbacks: 'default' });
    expect(
      modelsOf('/messages', '{"tools":[{"name":"advisor","model":"d","type":"advisor_20260301"}]}'),
    ).toEqual({
      'tools[0].model': 'd',
    });
    expect(modelsOf('/chat/completions', '{"models":["a","b"],"safety_model":"c"}')).toEqual({
      'models[0]': 'a',
      'models[1]': 'b',
      safety_model: 'c',
    });
    expect(
      modelsOf(
        '/responses',
        '{"input":[{"type":"additional_tools","tools":[{"type":"image_generation","svg":{"model":"s"}}]}]}',
      ),
    ).toEqual({ 'input[0].tools[0].svg.model': 's' });
  });

  it('are found in any case, twice, and in tools of a type that no table has', () => {
    expect(modelsOf('/chat/completions', '{"Models":["a"],"MODELS":["b"]}')).toEqual({
      'Models[0]': 'a',
      'MODELS[0]': 'b',
    });
    const tools =
      '{"tools":[{"type":"function","type":"image_generation","model":"i"},{"type":"new","Model":"j"}]}';
    expect(modelsOf('/responses', tools)).toEqual({ 'tools[0].model': 'i', 'tools[1].Model': 'j' });
  });

  it('are looked for in 1,024 members of an object, and no more are taken', () => {
    const body = (count: number) => {
      const others = Array.from({ length: count - 1 }, (_, at) => `"k${at}":0,`);
      return `{"fallbacks":[{${others.join('')}"model":"m"}]}`;
    };
    expect(modelsOf('/messages', body(1_024))).toEqual({ 'fallbacks[0].model': 'm' });
    expect(() => modelsOf('/messages', body(1_025))).toThrow(
      'fallbacks[0] has more than 1024 members. Accepted: an object of at most 1024.',
    );
  });

  it('are not what a schema or an argument has as its own', () => {
    const schema = '{"type":"object","properties":{"model":{"const":"x"}},"model":"y"}';
    expect(modelsOf('/messages', `{"model":"a","tools":[{"name":"f","input_schema":${schema}}]}`)).toEqual(
      {},
    );
    expect(
      modelsOf(
        '/messages',
        '{"messages":[{"content":[{"type":"tool_use","input":{"model":"x"}}]}],"metadata":{"model":"y"}}',
      ),
    ).toEqual({});
    expect(
      modelsOf('/responses', `{"tools":[{"type":"function","name":"f","parameters":${schema}}]}`),
    ).toEqual({});
  });
});
