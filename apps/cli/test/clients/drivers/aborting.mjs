// Between common.mjs and the drivers that leave streams.
/**
 * Each case leaves a stream several times, after some of its events: by `abort`, or by ending the loop. Prints when it left.
 * The process goes on after that, so that its end closes nothing.
 */
async function reportAborts(cases) {
  const left = async (run) => {
    let at = 0;
    const read = async (stream, abort) => {
      let events = 0;
      try {
        for await (const _ of stream) {
          if (++events < 8) continue;
          at = Date.now();
          if (abort === undefined) break;
          abort();
        }
      } catch (error) {
        if (at === 0) throw error;
      }
    };
    await run(read);
    return at;
  };
  const tries = Array.from({ length: Number(process.env.TEST_TRIES) });
  const timed = ([name, run]) => [
    name,
    async () => {
      const leftAt = [];
      for (const _ of tries) leftAt.push(await left(run));
      return { leftAt };
    },
  ];
  await report(Object.fromEntries(Object.entries(cases).map(timed)));
  await new Promise((resolve) => setTimeout(resolve, 1_000));
}
