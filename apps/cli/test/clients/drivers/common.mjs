// Before every driver: what the cases share. The settings that `weighbridge connect` printed come before it.
const QUESTION = 'How heavy is the truck?';
const ANSWER = '40 tonnes';
const WEIGH = {
  name: 'weigh',
  description: 'Weighs a truck.',
  parameters: {
    type: 'object',
    properties: { truck: { type: 'integer' } },
    required: ['truck'],
    additionalProperties: false,
  },
};

/** Runs the cases in turn, and prints what each found. */
async function report(cases) {
  for (const [name, run] of Object.entries(cases)) {
    const wanted = process.env.TEST_CASES?.split(',');
    if (wanted && !wanted.includes(name)) continue;
    let found;
    try {
      found = await run();
    } catch (error) {
      found = { error: `${error?.name}: ${error?.message}`.slice(0, 500), status: error?.status };
    }
    console.log(`CASE ${JSON.stringify({ name, ...found })}`);
  }
}
