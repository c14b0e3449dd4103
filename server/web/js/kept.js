// What a person chose and this browser keeps: language, theme, width. Works without storage too.

export const kept = {
  get(name) {
    try {
      return localStorage.getItem(`nodius.${name}`);
    } catch {
      return null;
    }
  },
  put(name, value) {
    try {
      localStorage.setItem(`nodius.${name}`, value);
    } catch {
      // chosen for this visit only
    }
  },
};

// What this tab alone keeps, until it is closed.
export const keptInTab = {
  list(name) {
    try {
      const found = JSON.parse(sessionStorage.getItem(`nodius.${name}`) ?? "[]");
      return Array.isArray(found) ? found : [];
    } catch {
      return [];
    }
  },
  putList(name, values) {
    try {
      sessionStorage.setItem(`nodius.${name}`, JSON.stringify(values));
    } catch {
      // until the page is loaded again
    }
  },
};
