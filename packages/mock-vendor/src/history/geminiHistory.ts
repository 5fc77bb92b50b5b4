import { isRecord, type JsonRecord } from '../shared/parameters.ts';
import { badRequest } from '../shared/vendorError.ts';
import { list, onlyMembers } from './members.ts';
import type { Signer } from './signer.ts';

/** What stands for a signature that another model's call can't have (https://ai.google.dev/gemini-api/docs/thought-signatures). */
const STAND_INS = new Set(['skip_thought_signature_validator', 'context_engineering_is_the_way_to_go']);
/** These models take a call of theirs back only with its signature. */
const SIGNS_CALLS = /^gemini-[3-9]/;
/** Of the subset of OpenAPI's schemas that `parameters` and `responseSchema` are in. */
const SCHEMA = new Set(
  `type format title description nullable enum maxItems minItems properties required minProperties maxProperties
  minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum`.split(/\s+/),
);
const NAME = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/;

/** Throws Google's 400 for contents that no conversation with it has. */
export function checkGeminiHistory(request: JsonRecord, model: string, signer: Signer): void {
  checkTools(request);
  const contents = list(request.contents).filter(isRecord);
  const turn = contents.findLastIndex(
    (content) => content.role !== 'model' && partsOf(content).some(({ text }) => text !== undefined),
  );
  let called: string[] = [];
  let before = 'user';
  for (const [at, content] of contents.entries()) {
    const parts = partsOf(content);
    const calls = parts.filter((part) => isRecord(part.functionCall));
    const answered = parts.flatMap(({ functionResponse: one }) => (isRecord(one) ? [String(one.name)] : []));
    checkAnswers(called, answered);
    if (calls.length > 0 && before === 'model')
      throw badRequest(
        'Please ensure that function call turn comes immediately after a user turn or after a function response turn.',
      );
    for (const { thoughtSignature: signature } of parts) {
      if (signature !== undefined && !signer.isOwn(signature) && !STAND_INS.has(String(signature)))
        throw badRequest('Corrupted thought signature.');
    }
    const [first] = calls;
    if (first && first.thoughtSignature === undefined && at > turn && SIGNS_CALLS.test(model))
      throw badRequest(
        `Function call is missing a thought_signature in functionCall parts. Additional data, function call \`${nameIn(first)}\`, position ${at + 1}.`,
      );
    called = calls.map(nameIn);
    before = content.role === 'model' ? 'model' : 'user';
  }
  if (called.length > 0) checkAnswers(called, []);
}

function partsOf(content: JsonRecord): JsonRecord[] {
  return list(content.parts).filter(isRecord);
}

function nameIn({ functionCall: call }: JsonRecord): string {
  return isRecord(call) ? String(call.name) : '';
}

function checkAnswers(called: readonly string[], answered: readonly string[]): void {
  if (called.length === answered.length && called.toSorted().join() === answered.toSorted().join()) return;
  throw badRequest(
    'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.',
  );
}

function checkTools({ tools, generationConfig: config }: JsonRecord): void {
  for (const tool of list(tools).filter(isRecord)) {
    for (const one of list(tool.functionDeclarations).filter(isRecord)) {
      if (!NAME.test(String(one.name))) throw badRequest(`Invalid function name: ${one.name}.`);
      if (one.parameters !== undefined && one.parametersJsonSchema !== undefined)
        throw badRequest('Only one of parameters and parameters_json_schema may be set.');
      checkSchema(one.parameters, 'tools.function_declarations.parameters');
    }
  }
  if (isRecord(config)) checkSchema(config.responseSchema, 'generation_config.response_schema');
}

function checkSchema(schema: unknown, path: string): void {
  if (!isRecord(schema)) return;
  onlyMembers(schema, SCHEMA, (name) =>
    badRequest(`Invalid JSON payload received. Unknown name "${name}" at '${path}': Cannot find field.`),
  );
  if (schema.type !== undefined && typeof schema.type !== 'string')
    throw badRequest(`Proto field is not repeating, cannot start list. at '${path}.type'`);
  for (const [name, inner] of Object.entries(isRecord(schema.properties) ? schema.properties : {}))
    checkSchema(inner, `${path}.properties.${name}`);
  checkSchema(schema.items, `${path}.items`);
  for (const inner of list(schema.anyOf)) checkSchema(inner, `${path}.any_of`);
}
