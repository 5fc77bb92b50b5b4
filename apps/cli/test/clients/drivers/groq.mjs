await report({ chatTools: completionsTools, chatStream: completionsStream });
