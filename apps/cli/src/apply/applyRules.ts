import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Rule } from './applyFile.ts';
import type { OpenApiSchemas } from './fileSchema.ts';

/** What the service publishes, and what it would refuse: both from the control plane itself, so that they are its law. */
export async function serviceLaw(): Promise<{ published: OpenApiSchemas; rule: Rule }> {
  // Only where it is needed: loading the control plane takes a while.
  const { checkPolicy, checkPrincipal, checkProfile } = await import('@weighbridge/control-plane');
  const file = createRequire(import.meta.url).resolve('@weighbridge/control-plane/openapi.json');
  const { components } = JSON.parse(await readFile(file, 'utf8'));
  return {
    published: components.schemas,
    rule(section, fields) {
      if (section === 'profiles') checkProfile(fields as never);
      if (section === 'policies') checkPolicy(fields as never);
      if (section === 'principals') checkPrincipal(fields as never);
    },
  };
}
