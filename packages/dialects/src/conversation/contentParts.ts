import type { Part } from '../ir/request.ts';
import { type Fields, fieldsOf, type ReadContext } from '../loss/fields.ts';

/** The parts of a text, or of a list of content parts. */
export function readContentParts<Wire extends object>(
  content: unknown,
  path: string,
  context: ReadContext,
  readPart: (fields: Fields<Wire>) => Part | undefined,
): Part[] {
  if (typeof content === 'string') return [{ kind: 'text', text: content, path }];
  if (!Array.isArray(content)) {
    context.losses.add(path, 'refused', 'expected a string or an array');
    return [];
  }
  const parts: Part[] = [];
  for (let index = 0; index < content.length; index++) {
    const fields = fieldsOf<Wire>(content[index], `${path}.${index}`, context);
    const part = fields && readPart(fields);
    if (part) parts.push(part);
  }
  return parts;
}

/** A part of one of OpenAI's dialects. What `readKnown` does not know is refused. */
export function readTypedPart<Wire extends object>(
  fields: Fields<Wire>,
  type: string,
  readKnown: (type: string, fields: Fields<Wire>) => Part | undefined,
): Part | undefined {
  const { path, context } = fields;
  const part = readKnown(type, fields);
  if (part) fields.end();
  else
    context.losses.add(
      path,
      'refused',
      `content of type ${type.slice(0, 40)} has no counterpart, or no source`,
    );
  return part;
}
