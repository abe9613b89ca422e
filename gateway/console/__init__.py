"""The console in the browser: pages made here, without a build step; scripts only draw, and listen."""
