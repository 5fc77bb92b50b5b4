/** Runs at most so many at once; throws `tooMany` for a further one. */
export function atMost(most: number, tooMany: () => Error): <T>(run: () => Promise<T>) => Promise<T> {
  let running = 0;
  return async (run) => {
    if (running >= most) throw tooMany();
    running += 1;
    try {
      return await run();
    } finally {
      running -= 1;
    }
  };
}
